module gke-inference/replayer

go 1.26.0
