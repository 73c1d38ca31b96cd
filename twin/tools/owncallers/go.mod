module github.com/gke-inference/gke-inference/twin/tools/owncallers

go 1.26.0
