package configs

import _ "embed" // demo.yaml

// Demo is the content of demo.yaml, which `eventhook demo` applies.
//
//go:embed demo.yaml
var Demo []byte
