package consolebudgets_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// stoppedClock records the streams of a page, counts its requests, and keeps its repeated timers, which
// run only when a test lets time pass. Nothing that a page shows meanwhile can come from polling.
const stoppedClock = `
window.streams = [];
window.EventSource = class extends EventSource {
	constructor(...args) { super(...args); streams.push(this); }
};
window.sent = 0;
const send = XMLHttpRequest.prototype.send;
XMLHttpRequest.prototype.send = function (...args) { window.sent++; return send.apply(this, args); };
window.timers = [];
window.periods = [];
window.setInterval = (f, period) => { periods.push(period); timers.push(f); };
window.openStreams = () => streams.filter(s => s.readyState !== EventSource.CLOSED).length;
window.hide = isHidden => {
	Object.defineProperty(document, "hidden", {value: isHidden, configurable: true});
	document.dispatchEvent(new Event("visibilitychange"));
};`

// watched is a page whose clock has stopped.
type watched struct {
	*browsertest.Page
	t      *testing.T
	server string
}

func newWatched(t *testing.T, g *gatewaytest.Gateway) *watched {
	t.Helper()
	p := g.SignIn(t, gatewaytest.AdminKey, "/console")
	p.Do("stop the clock", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: stoppedClock})
		return err
	}))
	return &watched{p, t, g.URL}
}

// open opens a page and waits for its stream.
func (p *watched) open(path string) {
	p.t.Helper()
	p.Open(p.server + path)
	p.WaitFor(`document.querySelector("[data-live-state]").dataset.state === "live"`)
}

// pass lets the repeated timers run once, and returns the number of requests that they sent.
func (p *watched) pass() int {
	p.t.Helper()
	got := browsertest.Eval[[]int](p.Page, `(before => (timers.forEach(f => f()), [timers.length, sent - before]))(sent)`)
	if got[0] == 0 {
		p.t.Error("the page has no repeated timers, so this test sees none")
	}
	return got[1]
}

// hide hides the tab, or shows it again.
func (p *watched) hide(isHidden bool) {
	p.t.Helper()
	browsertest.Eval[bool](p.Page, fmt.Sprintf(`(hide(%t), true)`, isHidden))
}

// wantStreams checks how many streams the page has opened, and how many of them are open.
func (p *watched) wantStreams(when string, opened, open int) {
	p.t.Helper()
	got := browsertest.Eval[[]int](p.Page, `[streams.length, openStreams()]`)
	if got[0] != opened || got[1] != open {
		p.t.Errorf("%s: got %d streams, %d open; want %d and %d", when, got[0], got[1], opened, open)
	}
}

// showsEvent waits until the list has an event.
func (p *watched) showsEvent(id string) {
	p.t.Helper()
	p.WaitVisible(fmt.Sprintf(`tr[data-href$=%q]`, id))
}

func TestALiveListHasOneStreamAndDoesNotPoll(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	n := g.Tenant(t, "live")
	p := newWatched(t, g)
	p.open("/console/t/" + n.Slug + "/events")
	if sent := p.pass(); sent != 0 {
		t.Errorf("the timers of a live list sent %d requests, want 0", sent)
	}
	p.showsEvent(n.Push(""))
	p.showsEvent(n.Push(""))
	p.wantStreams("after two updates", 1, 1)
}

// sinceHeard sets the time since the last message of the stream, lets the timers run, and returns the
// state that the page shows.
func (p *watched) sinceHeard(milliseconds int) string {
	p.t.Helper()
	browsertest.Eval[bool](p.Page, fmt.Sprintf(`(now => { Date.now = () => now + %d; timers.forEach(f => f()); return true })(heardAt)`, milliseconds))
	return browsertest.Eval[string](p.Page, `document.querySelector("[data-live-state]").dataset.state`)
}

// TestALostConnectionIsShownWithinTwoSeconds silences the stream, as a network does that loses packets.
func TestALostConnectionIsShownWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	n := g.Tenant(t, "silent")
	n.Push("")
	p := newWatched(t, g)
	p.open("/console/t/" + n.Slug + "/events")
	browsertest.Eval[bool](p.Page, `(window.heardAt = Date.now(), streams[0].close(), true)`)
	const heartbeat, limit = 1000, 2000
	if state := p.sinceHeard(heartbeat); state != "live" {
		t.Errorf("at the time of the next heartbeat, got %s, want live", state)
	}
	period := browsertest.Eval[int](p.Page, `Math.min(...periods)`)
	if state := p.sinceHeard(limit - period); state != "stale" {
		t.Errorf("got %s at the last look within two seconds, want stale", state)
	}
	p.WaitText("[data-live-state]", "connection lost · ")
	if color := browsertest.Eval[string](p.Page, `getComputedStyle(document.querySelector("[data-stale]")).filter`); color != "grayscale(1)" {
		t.Errorf("stale values have the filter %s, want grayscale(1)", color)
	}
	const reconnects = 6000
	p.sinceHeard(reconnects)
	browsertest.Eval[bool](p.Page, `(Date.now = () => performance.timeOrigin + performance.now(), true)`)
	p.WaitFor(`document.querySelector("[data-live-state]").dataset.state === "live"`)
	p.wantStreams("connected again", 2, 1)
}

func TestAHiddenTabClosesItsStreamAndCatchesUpWhenItIsShown(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	n := g.Tenant(t, "hidden")
	p := newWatched(t, g)
	p.open("/console/t/" + n.Slug + "/events")
	p.hide(true)
	p.wantStreams("hidden", 1, 0)
	missed := n.Push("")
	if sent := p.pass(); sent != 0 {
		t.Errorf("a hidden tab sent %d requests, want 0", sent)
	}
	if p.Count(fmt.Sprintf(`tr[data-href$=%q]`, missed)) > 0 {
		t.Error("a hidden tab shows a new event")
	}
	p.hide(false)
	p.showsEvent(missed)
	p.wantStreams("shown again", 2, 1)
}

func TestOnlyAnUnfinishedVisiblePageAsks(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	n := g.Tenant(t, "asking")
	work, err := n.Client.StartWork(t.Context(), n.Slug, client.StartWorkParams{}, client.WorkStart{Type: "task", Kind: "build"})
	if err != nil {
		t.Fatal(err)
	}
	p := newWatched(t, g)
	p.open("/console/t/" + n.Slug + "/work/" + work.ID)
	if sent := p.pass(); sent != 1 {
		t.Errorf("the page of waiting work sent %d requests, want 1", sent)
	}
	p.hide(true)
	if sent := p.pass(); sent != 0 {
		t.Errorf("the hidden page of waiting work sent %d requests, want 0", sent)
	}
	if _, err := n.Client.CancelWork(t.Context(), n.Slug, work.ID); err != nil {
		t.Fatal(err)
	}
	p.hide(false)
	p.WaitFor(`!document.querySelector("[data-refresh]")`)
	if sent := p.pass(); sent != 0 {
		t.Errorf("the page of cancelled work sent %d requests, want 0", sent)
	}
	p.wantStreams("at the end", 2, 1)
}

func TestASearchShowsItsResultsWithoutAReload(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	n := g.Tenant(t, "searching")
	id := n.Push("")
	p := newWatched(t, g)
	p.Open(g.URL + "/console/t/" + n.Slug + "/events/search?path=event.type&op=%24eq&value=push")
	p.showsEvent(id)
	p.wantStreams("a search", 0, 0)
	p.Open(g.URL + "/console/t/" + n.Slug + "/events/search?path=event.nothing&op=%24eq&value=push")
	p.Allow("422")
	p.WaitURL("wait=yes")
	p.WaitVisible(".fault, [role=alert]")
}
