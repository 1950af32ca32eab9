package usage_test

import (
	"testing"

	"github.com/eventhook/eventhook"
)

// BenchmarkTake measures the counting of an accepted event.
func BenchmarkTake(b *testing.B) {
	for name, quota := range map[string]eventhook.Quota{"without a quota": {}, "with a quota": perDay(1 << 62)} {
		b.Run(name, func(b *testing.B) {
			r := newFixture(b)
			a := r.open(r.meter, newSource(quota))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if a.Take(1, noon) != nil {
						b.Error("refused")
					}
				}
			})
		})
	}
}
