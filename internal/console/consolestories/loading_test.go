package consolestories_test

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// TestLoading sees the shape of a page and of rows while the gateway does not answer.
func TestLoading(t *testing.T) {
	g := gatewaytest.Shared(t)
	n := g.Tenant(t, "loading")
	n.Push("")
	base := g.URL + "/console/t/" + n.Slug
	p := g.SignIn(t, gatewaytest.AdminKey, "/console/t/"+n.Slug+"/events")
	p.WaitFor(`document.readyState === "complete"`)
	const shape = `getComputedStyle(document.querySelector("main"), "::after").content !== "none"`
	if browsertest.Eval[bool](p, shape) {
		t.Error("a page that has loaded shows the shape of one")
	}
	// The browser answers no test while it waits for a page, so that the event of its beginning stands for it.
	browsertest.Eval[bool](p, `dispatchEvent(new Event("beforeunload"))`)
	p.WaitFor(shape)
	p.Press("Escape")
	p.WaitFor("!(" + shape + ")")

	release := p.Hold("XHR")
	p.Open(base + "/events/search?path=event.type&op=%24eq&value=push")
	p.WaitFor(`getComputedStyle(document.querySelector("#results .skeleton")).opacity === "1"`)
	release()
	p.WaitVisible("#results tbody tr")
	p.WaitGone("#results .skeleton")
}

// TestTheHeadOfATableSticksToTheWindow scrolls a list whose rows are higher than the window.
func TestTheHeadOfATableSticksToTheWindow(t *testing.T) {
	g := gatewaytest.Shared(t)
	n := g.Tenant(t, "sticky")
	const events = 40
	for range events {
		n.Push("")
	}
	p := g.SignIn(t, gatewaytest.AdminKey, "/console/t/"+n.Slug+"/events")
	p.WaitVisible(".scroll.fits th")
	const tops = `["header.top", "th"].map(s => document.querySelector(s).getBoundingClientRect()).map((box, i) => i ? box.top : box.bottom)`
	browsertest.Eval[bool](p, `(scrollTo(0, 1000), true)`)
	if got := browsertest.Eval[[]float64](p, tops); got[0] != got[1] {
		t.Errorf("the head of the table is at %g, want it below the header, at %g", got[1], got[0])
	}
	p.View(browsertest.Phone)
	p.WaitGone(".scroll.fits th")
	if !strings.Contains(browsertest.Eval[string](p, `getComputedStyle(document.querySelector(".scroll")).overflowX`), "auto") {
		t.Error("a table that is wider than the window cannot be scrolled")
	}
}
