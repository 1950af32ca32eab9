package browsertest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// Request is a request that the page sent.
type Request struct {
	Method, URL string
	Type        string // such as Document, Stylesheet, Script, Fetch, XHR, EventSource
}

// Transferred are the sizes of the bodies of a document and what it loaded, in bytes, as they were
// compressed on the network.
type Transferred struct{ Document, Style, Script int }

// traffic records the requests of a page.
type traffic struct {
	mu       sync.Mutex
	requests []Request
}

func (r *traffic) observe(event any) {
	if e, ok := event.(*network.EventRequestWillBeSent); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requests = append(r.requests, Request{Method: e.Request.Method, URL: e.Request.URL, Type: string(e.Type)})
	}
}

// Requests returns the requests of the page until now, in order.
func (p *Page) Requests() []Request {
	p.traffic.mu.Lock()
	defer p.traffic.mu.Unlock()
	return slices.Clone(p.traffic.requests)
}

// sizesScript returns the compressed sizes of the document and of the resources it loaded. Bodies
// from the browser's cache have the size that they had on the network.
const sizesScript = `["navigation", "resource"].flatMap(type => performance.getEntriesByType(type)).map(
	e => ({url: e.name, bytes: e.encodedBodySize}))`

// Transferred returns the sizes of the document that the page shows, and of its styles and scripts.
func (p *Page) Transferred() Transferred {
	p.t.Helper()
	types := map[string]string{}
	for _, r := range p.Requests() {
		types[r.URL] = r.Type
	}
	var sum Transferred
	for _, e := range Eval[[]struct {
		URL   string `json:"url"`
		Bytes int    `json:"bytes"`
	}](p, sizesScript) {
		url, _, _ := strings.Cut(e.URL, "#")
		switch types[url] {
		case "Document":
			sum.Document += e.Bytes
		case "Stylesheet":
			sum.Style += e.Bytes
		case "Script":
			sum.Script += e.Bytes
		}
	}
	return sum
}

// Offline disconnects the page from the network, which sets navigator.onLine, or connects it again.
// Requests that run are not
// interrupted, so a stream of events stays open.
func (p *Page) Offline(offline bool) {
	p.t.Helper()
	const unlimited = -1
	p.Do("change the network", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
			MatchedNetworkConditions: []*network.Conditions{
				{Offline: offline, DownloadThroughput: unlimited, UploadThroughput: unlimited}}}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, t, network.OverrideNetworkState, network.OverrideNetworkStateParams{
			Offline: offline, DownloadThroughput: unlimited, UploadThroughput: unlimited})
		return err
	}))
}

// ForgetFiles empties the cache of the page, so that it loads styles and scripts again.
func (p *Page) ForgetFiles() {
	p.t.Helper()
	p.Do("empty the cache", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.ClearBrowserCache, cdp.Empty{})
		return err
	}))
}
