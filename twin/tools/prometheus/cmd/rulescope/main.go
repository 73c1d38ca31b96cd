// Command rulescope does to rules what Managed Prometheus' operator does: it reads
// rule groups and labels as JSON, adds each label to every selector of every
// expression and to every result, and writes one answer for each document.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

type rule struct {
	Expr   string            `json:"expr"`
	Labels map[string]string `json:"labels"`
}

type document struct {
	Scope map[string]string `json:"scope"`
	Rules []rule            `json:"rules"`
}

type answer struct {
	Error string `json:"error,omitempty"`
	Rules []rule `json:"rules,omitempty"`
}

func main() {
	var documents []document
	if err := json.NewDecoder(os.Stdin).Decode(&documents); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	answers := make([]answer, len(documents))
	for i, one := range documents {
		if err := scope(one); err != nil {
			answers[i] = answer{Error: err.Error()}
		} else {
			answers[i] = answer{Rules: one.Rules}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func scope(one document) error {
	names := make([]string, 0, len(one.Scope))
	for name := range one.Scope {
		names = append(names, name)
	}
	sort.Strings(names)
	p := parser.NewParser(parser.Options{})
	for i := range one.Rules {
		r := &one.Rules[i]
		expr, err := p.ParseExpr(r.Expr)
		if err != nil {
			return fmt.Errorf("parse PromQL expression: %w", err)
		}
		var conflict error
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if selector, ok := node.(*parser.VectorSelector); ok && conflict == nil {
				conflict = restrict(selector, names, one.Scope)
			}
			return nil
		})
		if conflict != nil {
			return conflict
		}
		r.Expr = expr.String()
		for _, name := range names {
			if value, ok := r.Labels[name]; ok {
				return fmt.Errorf("label %q already set on rule with unexpected value %q", name, value)
			}
			if r.Labels == nil {
				r.Labels = map[string]string{}
			}
			r.Labels[name] = one.Scope[name]
		}
	}
	return nil
}

func restrict(selector *parser.VectorSelector, names []string, wanted map[string]string) error {
	for _, name := range names {
		for _, m := range selector.LabelMatchers {
			if m.Name == name && (m.Type != labels.MatchEqual || m.Value != wanted[name]) {
				return fmt.Errorf("conflicting label matcher %s found", m)
			}
		}
		added, err := labels.NewMatcher(labels.MatchEqual, name, wanted[name])
		if err != nil {
			return err
		}
		selector.LabelMatchers = append(selector.LabelMatchers, added)
	}
	return nil
}
