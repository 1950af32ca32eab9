// Package consolebudgets_test holds the console to its budgets in a browser: the bytes and requests of
// a page, one stream for each visible page and none for a hidden one. Its benchmark measures each list
// among many rows.
package consolebudgets_test

import (
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// fill creates a tenant with rows in each list and a tenth of its deliveries dead, and returns the lists.
func fill(t testing.TB, g *gatewaytest.Gateway, slug string, events int) []listed {
	t.Helper()
	n := g.Tenant(t, slug)
	archive := n.Subscribe("archive", gatewaytest.NewReceiver(t))
	n.SeedAll(events)
	n.SeedDeliveries(archive.ID, events)
	n.SeedDead(events / 10) //nolint:mnd // a tenth
	newest, err := n.Client.ListEvents(t.Context(), n.Slug, client.ListEventsParams{})
	if err != nil {
		t.Fatal(err)
	}
	return pagesOf(n.Slug, newest.Items[0].ID)
}
