package main

import "math/bits"

// random has the values of Python's random.Random, a Mersenne Twister (MT19937), so that ties are
// broken as in the model in Python.
type random struct {
	state [624]uint32
	at    int
}

// newRandom seeds it as random.Random(seed) does: with an array of one number.
func newRandom(seed uint32) *random {
	r := &random{at: 624}
	s := &r.state
	s[0] = 19650218
	for i := uint32(1); i < 624; i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + i
	}
	i := 1
	for range 624 {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1664525) + seed
		if i++; i == 624 {
			s[0], i = s[623], 1
		}
	}
	for range 623 {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1566083941) - uint32(i)
		if i++; i == 624 {
			s[0], i = s[623], 1
		}
	}
	s[0] = 0x80000000
	return r
}

func (r *random) next() uint32 {
	s := &r.state
	if r.at == 624 {
		for i := range 624 {
			y := s[i]&0x80000000 | s[(i+1)%624]&0x7fffffff
			s[i] = s[(i+397)%624] ^ y>>1
			if y&1 == 1 {
				s[i] ^= 0x9908b0df
			}
		}
		r.at = 0
	}
	y := s[r.at]
	r.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// real is random.random.
func (r *random) real() float64 {
	high, low := r.next()>>5, r.next()>>6
	return (float64(high)*67108864 + float64(low)) / 9007199254740992
}

// below is random._randbelow.
func (r *random) below(count uint32) uint32 {
	width := bits.Len32(count)
	for {
		if found := r.next() >> (32 - width); found < count {
			return found
		}
	}
}
