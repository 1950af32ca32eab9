package configs

import _ "embed" // demo.yaml

// Demo is demo.yaml: what `eventhook demo` applies.
//
//go:embed demo.yaml
var Demo []byte
