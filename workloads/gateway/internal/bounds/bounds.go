// Package bounds has the range of each number in the files of settings of the gateway's programs.
//
// They are in bounds.json, which `make docs` writes from the types of a stack: a program that refuses a
// number that a stack accepts takes the endpoint down.
package bounds

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

//go:embed bounds.json
var content []byte

var programs = func() map[string]Program {
	var found map[string]Program
	if err := json.Unmarshal(content, &found); err != nil {
		panic(err) // the file is part of the program
	}
	return found
}()

// Range is a range of numbers. What is nil does not limit it.
type Range struct {
	Least *float64 `json:"least"`
	Above *float64 `json:"above"`
	Most  *float64 `json:"most"`
}

// Program has the ranges of a program, by setting.
type Program map[string]Range

// Of returns the ranges of a program.
func Of(program string) Program { return programs[program] }

// Check returns an error with the field, the rule and the value if the value of a setting is out of its range.
func (p Program) Check(setting, field string, value float64) error {
	found, has := p[setting]
	if !has {
		panic("bounds.json has no " + setting)
	}
	return found.check(field, value)
}

// CheckAll checks settings whose names are their fields.
func (p Program) CheckAll(values map[string]float64) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := p.Check(name, name, values[name]); err != nil {
			return err
		}
	}
	return nil
}

func (r Range) check(field string, value float64) error {
	isLow := r.Least != nil && value < *r.Least || r.Above != nil && value <= *r.Above
	if isLow || r.Most != nil && value > *r.Most {
		return fmt.Errorf("%s: must be %s, got %s", field, r, text(value))
	}
	return nil
}

// String returns the rule of the range.
func (r Range) String() string {
	switch {
	case r.Least != nil && r.Most != nil:
		return text(*r.Least) + " to " + text(*r.Most)
	case r.Least != nil:
		return "at least " + text(*r.Least)
	case r.Most != nil:
		return "more than " + text(*r.Above) + " and at most " + text(*r.Most)
	default:
		return "more than " + text(*r.Above)
	}
}

func text(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }
