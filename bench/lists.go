package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The sizes whose lists are held against each other.
const (
	fewEvents, fewSources = 1000, 10
	eventsEach            = fewEvents / fewSources // by a source
	// slower is by how much the lists among many may be.
	slower = 2.0
)

// lists holds the time of each list in a full database against that in a nearly
// empty one.
func (r *run) lists(ctx context.Context) error {
	r.print("lists: %d events and %d sources against %d and %d; %d rounds of %d times each list, in turn\n",
		r.events, r.events/eventsEach, fewEvents, fewSources, listRounds, timesInRound)
	small, endSmall, err := r.catalog(ctx, "small", fewEvents, fewSources)
	if err != nil {
		return err
	}
	defer endSmall()
	large, endLarge, err := r.catalog(ctx, "large", r.events, r.events/eventsEach)
	if err != nil {
		return err
	}
	defer endLarge()
	pairs, err := pair(ctx, small, large)
	if err != nil {
		return err
	}
	if err := measureLists(ctx, pairs, listRounds); err != nil {
		return err
	}
	var again []*listPair
	for _, p := range pairs {
		if p.ratio(99) > slower {
			again = append(again, p)
		}
	}
	r.print("  measured anew, %d times as long: %d lists\n", anewRounds/listRounds, len(again))
	if err := measureLists(ctx, again, anewRounds); err != nil {
		return err
	}
	r.reportLists(pairs)
	return nil
}

// measureLists takes the times of lists anew, in rounds, of which the first
// warms up.
func measureLists(ctx context.Context, pairs []*listPair, rounds int) error {
	for round := range rounds + 1 {
		for _, p := range pairs {
			if round == 1 {
				p.small.times, p.large.times = nil, nil
			}
			if err := p.measure(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// catalog is a gateway's lists, over its API.
type catalog struct {
	client  *http.Client
	address string
	key     string // the admin's
	lists   []list
}

// catalog starts a gateway and fills its database. The end is the caller's to
// call.
func (r *run) catalog(ctx context.Context, name string, events, sources int) (c *catalog, end func(), err error) {
	g, err := r.gateway(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			g.stop()
		}
	}()
	began := time.Now()
	f, err := newFiller(ctx, g.stats.conn, events, sources)
	if err != nil {
		return nil, nil, err
	}
	if err = f.all(ctx); err != nil {
		return nil, nil, err
	}
	if err = g.sealVerifiers(ctx); err != nil {
		return nil, nil, err
	}
	if err = f.settle(ctx); err != nil {
		return nil, nil, err
	}
	key, err := os.ReadFile(filepath.Join(g.dir, "admin.key"))
	if err != nil {
		return nil, nil, err
	}
	r.print("  filled the %s database in %s\n", name, time.Since(began).Round(100*time.Millisecond))
	return &catalog{&http.Client{}, "http://" + g.to.address, strings.TrimSpace(string(key)), f.lists()}, g.stop, nil
}

// page is what the bench looks at in an answer.
type page struct {
	Items      []json.RawMessage `json:"items"`
	NextCursor string            `json:"next_cursor"`
}

func (c *catalog) get(ctx context.Context, path string) (body []byte, took time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address+path, nil)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	began := time.Now()
	res, err := c.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err = io.ReadAll(res.Body)
	took = time.Since(began)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %s", path, res.Status, body)
	}
	return body, took, err
}

// path is a list's, with the cursor where its second page is wanted, and how
// many items it has.
func (c *catalog) path(ctx context.Context, l list) (path string, items int, err error) {
	path = l.url(50)
	p, err := c.page(ctx, path)
	if err != nil || !l.isSecond {
		return path, len(p.Items), err
	}
	if p.NextCursor == "" {
		return "", 0, fmt.Errorf("%s: there is no second page", l.name)
	}
	path += "&cursor=" + p.NextCursor
	p, err = c.page(ctx, path)
	return path, len(p.Items), err
}

func (c *catalog) page(ctx context.Context, path string) (p page, err error) {
	body, _, err := c.get(ctx, path)
	if err == nil {
		err = json.Unmarshal(body, &p)
	}
	return p, err
}

// How often each list is asked for. What else the machine does can make one
// look slow: such a list is measured anew, longer, and only that counts.
const (
	timesInRound = 50
	listRounds   = 6
	anewRounds   = 4 * listRounds
)

// listPair is one list in both databases.
type listPair struct {
	name         string
	items        int
	small, large timedList
}

// timedList is a list of one gateway, and how long it took.
type timedList struct {
	*catalog
	path  string
	times []time.Duration
}

// pair joins the lists. Those that are not of one length cannot be compared.
func pair(ctx context.Context, small, large *catalog) (pairs []*listPair, err error) {
	for i, l := range small.lists {
		p := &listPair{name: l.name, small: timedList{catalog: small}, large: timedList{catalog: large}}
		if p.small.path, p.items, err = small.path(ctx, l); err != nil {
			return nil, err
		}
		var items int
		if p.large.path, items, err = large.path(ctx, large.lists[i]); err != nil {
			return nil, err
		}
		if items != p.items {
			return nil, fmt.Errorf("%s: %d items among few and %d among many", l.name, p.items, items)
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// measure takes the time of both in turn, so that what else the machine does
// hits both.
func (p *listPair) measure(ctx context.Context) error {
	for range timesInRound {
		for _, l := range []*timedList{&p.small, &p.large} {
			_, took, err := l.get(ctx, l.path)
			if err != nil {
				return err
			}
			l.times = append(l.times, took)
		}
	}
	return nil
}

// ratio is by how much the list is slower among many.
func (p *listPair) ratio(percent int) float64 {
	return float64(percentile(p.large.times, percent)) / float64(percentile(p.small.times, percent))
}

func (r *run) reportLists(pairs []*listPair) {
	r.print("\n%-40s %5s %21s %21s %14s\n", "", "items", "p50, few and many", "p99, few and many", "ratios")
	worst := pairs[0]
	for _, p := range pairs {
		if p.ratio(99) > worst.ratio(99) {
			worst = p
		}
		at := func(times []time.Duration, percent int) time.Duration {
			return percentile(times, percent).Round(10 * time.Microsecond)
		}
		r.print("%-40s %5d %10s %10s %10s %10s %7.2f %6.2f\n", p.name, p.items, at(p.small.times, 50), at(p.large.times, 50),
			at(p.small.times, 99), at(p.large.times, 99), p.ratio(50), p.ratio(99))
	}
	r.print("the slowest of %d lists: %s\n", len(pairs), worst.name)
	r.ratios = append(r.ratios, ratio{fmt.Sprintf("slowest list among %d events / %d", r.events, fewEvents), worst.ratio(99), slower, true})
}
