// Package group gives the kinds that a picker watches another API group, where a variable names one.
//
// Upstream's packages register the kinds when they are initialized. Go initializes packages that are
// ready in the order of their paths, and this one is ready with the package of the kinds.
package group

import (
	"os"

	"sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha2"
)

// Variable has the API group of the picker that this one stands for too (twin/tools/llm-d-router).
const Variable = "PICKER_API_GROUP"

func init() {
	if name := os.Getenv(Variable); name != "" {
		v1alpha2.GroupVersion.Group = name
		v1alpha2.SchemeGroupVersion.Group = name
	}
}
