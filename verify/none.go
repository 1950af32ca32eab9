package verify

import "github.com/eventhook/eventhook"

// noneScheme lets everything pass. It must be asked for by name.
var noneScheme = scheme{
	validate: func(Config, *eventhook.Faults) {},
	build:    func(Config) Verifier { return noneVerifier{} },
}

type noneVerifier struct{}

func (noneVerifier) Verify(*Request) error { return nil }
