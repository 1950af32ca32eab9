package match_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/match"
)

func (o *store) EventType(ctx context.Context, tenant eventhook.TenantID, name string) (eventhook.EventType, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads++
	i := slices.IndexFunc(o.types[tenant], func(t eventhook.EventType) bool { return t.Name == name })
	switch {
	case ctx.Err() != nil || o.err != nil:
		return eventhook.EventType{}, fmt.Errorf("find event type: %w", o.err)
	case i < 0:
		return eventhook.EventType{}, eventhook.NotFound("event type")
	}
	return o.types[tenant][i], nil
}

func (o *store) Mismatch(kind string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.misfits = append(o.misfits, kind)
}

// catalogued returns a store and a catalogue with event types of payments.
func catalogued() (*store, *match.Catalogue) {
	o := newStore()
	o.types[acme] = []eventhook.EventType{
		{Name: "payment.made", Category: "payment", Schema: []byte(`{"required":["amount"],"properties":{"amount":{"type":"number"}}}`)},
		{Name: "payment.lost", Category: "payment"},
		{Name: "payment.odd", Category: "payment", Schema: []byte(`{"type":7}`)},
		{Name: "payment.endless", Category: "payment", Schema: []byte(`{"oneOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`)},
	}
	return o, match.NewCatalogue(1000, o, o, o.log, time.Now)
}

var endless = strings.Repeat("[", 40) + strings.Repeat("]", 40)

func TestCatalogueCheck(t *testing.T) {
	o, c := catalogued()
	for _, test := range []struct{ eventType, data, category, fault, misfit string }{
		{"payment.made", `{"amount":1}`, "payment", "", ""},
		{"payment.made", `{}`, "payment", "data: required", match.MismatchShape},
		{"payment.made", `{"amount":"hunter2"}`, "payment", "data.amount: type", match.MismatchShape},
		{"payment.made", `"` + strings.Repeat("x", 100_000) + `"`, "payment", "the data cannot be validated: it is not JSON, is too large or is nested too deeply", match.MismatchUnchecked},
		{"payment.lost", `hunter2`, "payment", "", ""},
		{"payment.odd", `{}`, "payment", "the schema of the event type cannot be used", match.MismatchUnchecked},
		{"payment.endless", endless, "payment", "validating the data against the schema takes too much work", match.MismatchUnchecked},
		{"payment.new", `{}`, "", "the catalogue has no entry for the event type", match.MismatchUnknown},
		{"tenant.updated", `{}`, "eventhook", "", ""},
	} {
		o.misfits = nil
		category, fault := c.Check(t.Context(), nil, news(test.eventType, test.data))
		if category != test.category || fault != test.fault || strings.Join(o.misfits, ",") != test.misfit {
			t.Errorf("%s: got %q, %q, counted %q; want %q, %q, %q", test.eventType, category, fault, o.misfits, test.category, test.fault, test.misfit)
		}
	}
	if strings.Contains(o.logged.String(), "hunter2") {
		t.Errorf("the log contains data: %s", o.logged)
	}
	var none *match.Catalogue
	if category, fault := none.Check(t.Context(), nil, news("payment.made", "{}")); category != "" || fault != "" {
		t.Errorf("without a catalogue: got %q, %q; want empty texts", category, fault)
	}
}

func TestMismatchesAreAlwaysCountedAndLoggedHourly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := catalogued()
		for range 120 {
			c.Check(t.Context(), nil, news("payment.made", "{}"))
			c.Check(t.Context(), nil, news("payment.new", "{}"))
			time.Sleep(time.Minute)
		}
		if len(o.misfits) != 240 {
			t.Errorf("counted %d, want 240", len(o.misfits))
		}
		if lines := strings.Count(o.logged.String(), "\n"); lines != 4 {
			t.Errorf("%d log entries in two hours, want two for each type:\n%s", lines, o.logged)
		}
	})
}

func TestAChangeOfTheCatalogueTakesEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := catalogued()
		category := func() string {
			got, _ := c.Check(t.Context(), nil, news("payment.lost", "{}"))
			return got
		}
		category()
		o.types[acme][1].Category = "loss"
		if got := category(); got != "payment" || o.reads != 1 {
			t.Errorf("immediately: got %q after %d reads, want the cached category after 1", got, o.reads)
		}
		time.Sleep(30 * time.Second)
		if got := category(); got != "loss" {
			t.Errorf("half a minute later: got %q, want loss", got)
		}
		o.types[acme][1].Category = "gone"
		c.Invalidate(acme, "payment.lost")
		if got := category(); got != "gone" {
			t.Errorf("after a notification: got %q, want gone", got)
		}
		o.err = errDown
		c.Invalidate(acme, "payment.lost")
		if got := category(); got != "" {
			t.Errorf("during an outage: got %q, want an empty text", got)
		}
	})
}

// After a check that takes too many steps, a schema is not used for a while.
func TestASchemaThatTakesTooManyStepsIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := catalogued()
		for _, step := range []struct {
			data string
			wait time.Duration
		}{{"1", 0}, {endless, time.Second}, {"1", time.Minute}, {"1", 0}} {
			c.Check(t.Context(), nil, news("payment.endless", step.data))
			time.Sleep(step.wait)
		}
		want := []string{match.MismatchShape, match.MismatchUnchecked, match.MismatchUnchecked, match.MismatchShape}
		if diff := cmp.Diff(want, o.misfits); diff != "" {
			t.Errorf("mismatches (-want +got):\n%s", diff)
		}
	})
}

func TestCheckNowReturnsTheCategoriesOfSystemEvents(t *testing.T) {
	var none *match.Catalogue
	if category, ok := none.CheckNow(nil, news("payment.made", "{}")); category != "" || !ok {
		t.Errorf("without a catalogue: got %q, %t; want an empty text and true", category, ok)
	}
	o, c := catalogued()
	own := eventhook.SystemEventTypes()[0]
	if category, ok := c.CheckNow(nil, news(own.Name, "{}")); category != own.Category || !ok || o.reads != 0 {
		t.Errorf("system event: got %q, %t after %d reads", category, ok, o.reads)
	}
}
