module github.com/gke-inference/gke-inference/twin/tools/crds

go 1.26.0

require sigs.k8s.io/gateway-api v1.6.0
