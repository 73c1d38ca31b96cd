module github.com/gke-inference/gke-inference/twin/tools/valkey

go 1.26.0

require github.com/alicebob/miniredis/v2 v2.40.0

require github.com/yuin/gopher-lua v1.1.1 // indirect

require github.com/gke-inference/gke-inference/twin/tools/owncallers v0.0.0

replace github.com/gke-inference/gke-inference/twin/tools/owncallers => ../owncallers
