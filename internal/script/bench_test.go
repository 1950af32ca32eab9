package script_test

import (
	"testing"

	"github.com/eventhook/eventhook/internal/script"
)

func BenchmarkRun(b *testing.B) {
	for name, p := range map[string]script.Program{
		"filter":   {Kind: script.Filter, Source: "const filter = e => e.body.amount > 5"},
		"jmespath": {Kind: script.JMESPath, Source: "body.amount"},
	} {
		b.Run(name, func(b *testing.B) {
			pool := script.NewPool(1, script.TimeLimit)
			b.Cleanup(pool.Close)
			for b.Loop() {
				if _, err := pool.Run(b.Context(), p, []byte(event)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
