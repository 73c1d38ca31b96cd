package main

import "testing"

// The values are those of Python's random.Random(7): random(), then _randbelow of 3 five times.
func TestTheRandomNumbersAreThoseOfPython(t *testing.T) {
	r := newRandom(7)
	if found := r.real(); found != 0.32383276483316237 {
		t.Errorf("real() = %v", found)
	}
	for index, expected := range []uint32{0, 1, 2, 0, 0} {
		if found := r.below(3); found != expected {
			t.Errorf("below(3) number %d = %d, must be %d", index, found, expected)
		}
	}
}
