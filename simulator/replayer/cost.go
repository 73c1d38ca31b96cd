package main

import "math"

// Figures of planner.speed.roofline.CostModel, without stages, adapters, speculation and expert
// parallelism. A test compares the times of requests.
type Figures struct {
	DenseFlops    float64 `json:"dense_flops"`
	PaddedFlops   float64 `json:"padded_flops"`
	Experts       float64 `json:"experts"`
	Chosen        float64 `json:"chosen"`
	Peak          float64 `json:"peak"`
	PairFlops     float64 `json:"pair_flops"`
	AttentionPeak float64 `json:"attention_peak"`
	Bytes         float64 `json:"bytes"`
	Active        float64 `json:"active"`
	Whole         float64 `json:"whole"`
	Expert        float64 `json:"expert"`
	Bandwidth     float64 `json:"bandwidth"`
	KvBytes       float64 `json:"kv_bytes"`
	KvBandwidth   float64 `json:"kv_bandwidth"`
	Fixed         float64 `json:"fixed"`
	LinkToken     float64 `json:"link_token"`
	Shared        float64 `json:"shared"`
	IsSeparate    bool    `json:"is_separate"`
	LeastTile     float64 `json:"least_tile"`
	MostTile      float64 `json:"most_tile"`
}

// Kind has the fixed settings of an engine.
type Kind struct {
	Figures     Figures `json:"figures"`
	MostTokens  int32   `json:"most_tokens"`
	MostRunning int32   `json:"most_running"`
	BlockSize   int32   `json:"block_size"`
	Blocks      int32   `json:"blocks"`
	LongestLen  int32   `json:"longest"`
	Caches      bool    `json:"caches"`
	Chunked     bool    `json:"chunked"`
	Async       bool    `json:"async"`
	Lora        *Lora   `json:"lora"` // nil: an engine without adapters

	// By the tokens of a step: operations and reads of the matrix products, both in seconds, and
	// the time of messages and what no hardware explains.
	compute, reads, rest []float64
}

// prepare computes what depends on a step's tokens alone.
func (k *Kind) prepare() {
	f := &k.Figures
	count := int(k.MostTokens) + 1
	k.compute, k.reads, k.rest = make([]float64, count), make([]float64, count), make([]float64, count)
	for n := range count {
		tokens := float64(n)
		flops := f.DenseFlops * tokens
		touched := min(f.Whole, f.Active*max(1, math.Pow(tokens, 0.75)))
		if f.Expert > 0 {
			drawn := f.Experts * (1 - math.Pow(1-f.Chosen/f.Experts, tokens))
			touched = (f.Active - f.Chosen*f.Expert) + drawn*f.Expert
			if f.PaddedFlops > 0 {
				tile := min(f.MostTile, max(f.LeastTile, tokens*f.Chosen/f.Experts))
				flops += f.PaddedFlops * (drawn * tile / 2)
			}
		}
		k.compute[n] = flops / f.Peak
		k.reads[n] = touched * f.Bytes / f.Bandwidth
		k.rest[n] = f.Fixed + tokens*f.LinkToken
	}
}

// seconds returns the duration of a step: CostModel.step_seconds.
func (k *Kind) seconds(tokens int32, context, pairs, distinct float64, adapters int) float64 {
	if tokens == 0 {
		return 0
	}
	f := &k.Figures
	slower := 1.0
	if adapters > 0 {
		slower = k.Lora.Factors[adapters]
	}
	if distinct < context {
		context = distinct + f.Shared*(context-distinct)
	}
	kv := context * f.KvBytes
	if f.IsSeparate {
		products := max(k.compute[tokens], k.reads[tokens])
		attention := max(pairs*f.PairFlops/f.AttentionPeak, kv/f.KvBandwidth)
		return (products+attention)*slower + k.rest[tokens]
	}
	compute := k.compute[tokens] + pairs*f.PairFlops/f.Peak
	return max(compute, k.reads[tokens]+kv/f.Bandwidth)*slower + k.rest[tokens]
}
