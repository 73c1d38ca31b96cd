//go:build tools

// Package crds pins the modules whose custom resource definitions the twin installs.
package crds

import (
	_ "sigs.k8s.io/gateway-api/pkg/consts"
)
