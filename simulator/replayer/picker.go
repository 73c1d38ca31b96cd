package main

type pickerSettings struct{}
type picker struct{}

func newPicker(pickerSettings) *picker { return nil }

func (p *picker) pick(a *arrival, members []member) int { return 0 }
