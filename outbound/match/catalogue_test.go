package match_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/match"
	"github.com/eventhook/eventhook/outbound/match/matchtest"
)

// catalogued returns the fake event types of payments, a catalogue of them and its log.
func catalogued() (*matchtest.EventTypes, *match.Catalogue, *strings.Builder) {
	types, logged := matchtest.Payments(acme), &strings.Builder{}
	return types, match.NewCatalogue(1000, types, types, slog.New(slog.NewTextHandler(logged, nil)), time.Now), logged
}

var endless = strings.Repeat("[", 40) + strings.Repeat("]", 40)

func TestCatalogueCheck(t *testing.T) {
	types, c, logged := catalogued()
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
		types.Mismatches = nil
		category, fault := c.Check(t.Context(), nil, news(test.eventType, test.data))
		if category != test.category || fault != test.fault || strings.Join(types.Mismatches, ",") != test.misfit {
			t.Errorf("%s: got %q, %q, counted %q; want %q, %q, %q", test.eventType, category, fault, types.Mismatches, test.category, test.fault, test.misfit)
		}
	}
	for _, line := range []string{
		`msg="a published event does not match its schema; it is delivered" tenant=` + acme.String() + ` type=payment.made fault="data: required"`,
		`msg="a published event could not be checked against its schema; it is delivered" tenant=` + acme.String() + ` type=payment.odd fault=`,
		`msg="a published event has an unknown type; it is delivered" tenant=` + acme.String() + ` type=payment.new fault=`,
	} {
		if !strings.Contains(logged.String(), line) {
			t.Errorf("got the log %s, want a line with %s", logged, line)
		}
	}
	if strings.Contains(logged.String(), "hunter2") {
		t.Errorf("the log contains data: %s", logged)
	}
	var none *match.Catalogue
	if category, fault := none.Check(t.Context(), nil, news("payment.made", "{}")); category != "" || fault != "" {
		t.Errorf("without a catalogue: got %q, %q; want empty texts", category, fault)
	}
}

func TestMismatchesAreAlwaysCountedAndLoggedHourly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		types, c, logged := catalogued()
		for range 120 {
			c.Check(t.Context(), nil, news("payment.made", "{}"))
			c.Check(t.Context(), nil, news("payment.new", "{}"))
			time.Sleep(time.Minute)
		}
		if len(types.Mismatches) != 240 {
			t.Errorf("counted %d, want 240", len(types.Mismatches))
		}
		if lines := strings.Count(logged.String(), "\n"); lines != 4 {
			t.Errorf("%d log entries in two hours, want two for each type:\n%s", lines, logged)
		}
	})
}

func TestAChangeOfTheCatalogueTakesEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		types, c, _ := catalogued()
		category := func() string {
			got, _ := c.Check(t.Context(), nil, news("payment.lost", "{}"))
			return got
		}
		category()
		types.Types[acme][1].Category = "loss"
		if got := category(); got != "payment" || types.Reads != 1 {
			t.Errorf("immediately: got %q after %d reads, want the cached category after 1", got, types.Reads)
		}
		time.Sleep(30 * time.Second)
		if got := category(); got != "loss" {
			t.Errorf("half a minute later: got %q, want loss", got)
		}
		types.Types[acme][1].Category = "gone"
		c.Invalidate(acme, "payment.lost")
		if got := category(); got != "gone" {
			t.Errorf("after a notification: got %q, want gone", got)
		}
		types.Err = errDown
		c.Invalidate(acme, "payment.lost")
		if got := category(); got != "" {
			t.Errorf("during an outage: got %q, want an empty text", got)
		}
	})
}

// After a check that takes too many steps, a schema is not used for a while.
func TestASchemaThatTakesTooManyStepsIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		types, c, _ := catalogued()
		for _, step := range []struct {
			data string
			wait time.Duration
		}{{"1", 0}, {endless, time.Second}, {"1", time.Minute}, {"1", 0}} {
			c.Check(t.Context(), nil, news("payment.endless", step.data))
			time.Sleep(step.wait)
		}
		want := []string{match.MismatchShape, match.MismatchUnchecked, match.MismatchUnchecked, match.MismatchShape}
		if diff := cmp.Diff(want, types.Mismatches); diff != "" {
			t.Errorf("mismatches (-want +got):\n%s", diff)
		}
	})
}

func TestCheckNowReturnsTheCategoriesOfSystemEvents(t *testing.T) {
	var none *match.Catalogue
	if category, ok := none.CheckNow(nil, news("payment.made", "{}")); category != "" || !ok {
		t.Errorf("without a catalogue: got %q, %t; want an empty text and true", category, ok)
	}
	types, c, _ := catalogued()
	own := eventhook.SystemEventTypes()[0]
	if category, ok := c.CheckNow(nil, news(own.Name, "{}")); category != own.Category || !ok || types.Reads != 0 {
		t.Errorf("system event: got %q, %t after %d reads", category, ok, types.Reads)
	}
}
