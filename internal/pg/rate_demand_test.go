package pg

import (
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

func TestInstancesExchangeTheRatesOfSources(t *testing.T) {
	f := setUp(t)
	erp := eventhook.NewID[eventhook.Source](noon)
	exchange := func(on ingest.RateStore, own ...ingest.RateDemand) (int, map[eventhook.SourceID]float64) {
		t.Helper()
		n, others, err := on.ExchangeRates(t.Context(), own)
		f.must(err)
		return n, others
	}
	n, others := exchange(f.db, ingest.RateDemand{SourceID: f.crm, PerSecond: 80})
	same(t, "instances", n, 1)
	same(t, "others", others, map[eventhook.SourceID]float64{})
	n, others = exchange(f.other, ingest.RateDemand{SourceID: f.crm, PerSecond: 20}, ingest.RateDemand{SourceID: erp, PerSecond: 5})
	same(t, "instances", n, 2)
	same(t, "the demand of the first instance", others, map[eventhook.SourceID]float64{f.crm: 80})
	_, others = exchange(f.db, ingest.RateDemand{SourceID: f.crm, PerSecond: 90})
	same(t, "the demand of the second instance", others, map[eventhook.SourceID]float64{f.crm: 20})
	f.exec(`UPDATE eventhook.rate_demand SET at = at - interval '5 s'`)
	n, others = exchange(f.other, ingest.RateDemand{SourceID: f.crm, PerSecond: 20})
	same(t, "instances after one has ended", n, 1)
	same(t, "others after one has ended", others, map[eventhook.SourceID]float64{})
	f.exec(`UPDATE eventhook.rate_demand SET at = at - interval '2 min'`)
	deleted, err := f.db.SweepRates(t.Context())
	f.must(err)
	same(t, "deleted", deleted, 5)
}
