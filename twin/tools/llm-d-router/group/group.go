// Package group gives the kinds that a picker watches the API group of llm-d-router.
//
// Upstream's packages register the kinds when they are initialized. Go initializes packages that are
// ready in the order of their paths, and this one is ready with the package of the kinds.
package group

import "sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha2"

// Name is the API group.
const Name = "llm-d.ai"

func init() {
	v1alpha2.GroupVersion.Group = Name
	v1alpha2.SchemeGroupVersion.Group = Name
}
