package pg

import (
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func TestVerifiersAreSealed(t *testing.T) {
	f := setUp(t)
	if row := queryValue[string](f, `SELECT s::text FROM eventhook.source s WHERE slug = 'crm'`); strings.Contains(row, "s3cr3t") || !strings.Contains(row, "enc2:test:") {
		t.Errorf("the row is %s, want it sealed", row)
	}
	s, err := f.db.FindSource(t.Context(), "acme", "crm")
	f.must(err)
	same(t, "opened", s.Verifier.Reveal(), acme().Sources[0].Verifier.Reveal())
	_, err = f.db.FindSource(t.Context(), "acme", "nowhere")
	wantKind(t, "an unknown source", err, eventhook.KindNotFound)
	_, err = f.db.FindSource(t.Context(), "globex", "crm")
	wantKind(t, "of an unknown tenant", err, eventhook.KindNotFound)
}

func TestRoutesAreInOrderOfEvaluation(t *testing.T) {
	f := setUp(t)
	c := acme()
	base := c.Sources[0].Routes[0]
	for i, name := range []string{"low", "high", "off", "newer"} {
		r := base
		r.Name, r.Priority, r.IsEnabled = name, []int{-1, 5, 9, 0}[i], name != "off"
		c.Sources[0].Routes = append(c.Sources[0].Routes, r)
	}
	f.clock.Advance(time.Second)
	f.apply(c)
	routed, err := f.db.SourceRouting(t.Context(), f.tenant, f.crm)
	f.must(err)
	var names []string
	for _, r := range routed.Routes {
		names = append(names, r.Name)
	}
	same(t, "routes", names, []string{"high", "all", "newer", "low"})
	routed, err = f.db.SourceRouting(t.Context(), f.tenant, eventhook.NewID[eventhook.Source](noon))
	f.must(err)
	same(t, "routes of a deleted source", len(routed.Routes), 0)
}
