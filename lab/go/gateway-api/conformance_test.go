// Package gatewayapi builds the Gateway API conformance suite as a program of its own
// (`go test -c`).
package gatewayapi

import (
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

func TestConformance(t *testing.T) { conformance.RunConformance(t) }
