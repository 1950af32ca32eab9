package ingest

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// exchangeStore is a RateStore of several instances in one process.
type exchangeStore struct {
	now     func() time.Time
	demands map[int]map[eventhook.SourceID]float64 // by instance
	at      map[int]time.Time
	down    bool
}

// of returns the store of an instance.
func (s *exchangeStore) of(instance int) RateStore { return instanceStore{s, instance} }

type instanceStore struct {
	*exchangeStore
	instance int
}

func (s instanceStore) ExchangeRates(_ context.Context, own []RateDemand) (int, map[eventhook.SourceID]float64, error) {
	if s.down {
		return 0, nil, errors.New("the database is down")
	}
	s.at[s.instance] = s.now()
	s.demands[s.instance] = map[eventhook.SourceID]float64{}
	for _, d := range own {
		s.demands[s.instance][d.SourceID] = d.PerSecond
	}
	others, instances := map[eventhook.SourceID]float64{}, 0
	for i, at := range s.at {
		if s.now().Sub(at) > 3*time.Second {
			continue
		}
		instances++
		for source, d := range s.demands[i] {
			if i != s.instance {
				others[source] += d
			}
		}
	}
	return instances, others, nil
}

// cluster simulates instances that share the limits of one source.
type cluster struct {
	now       time.Time
	store     *exchangeStore
	shared    []*sharedLimits
	limits    []*limits
	setting   eventhook.RateLimit
	remainder []float64 // requests of a tick that are less than one
}

func newSharingCluster(instances int, setting eventhook.RateLimit) *cluster {
	c := &cluster{now: time.Unix(1_800_000_000, 0), setting: setting, remainder: make([]float64, instances)}
	c.store = &exchangeStore{now: func() time.Time { return c.now }, demands: map[int]map[eventhook.SourceID]float64{}, at: map[int]time.Time{}}
	source := eventhook.Source{ID: eventhook.NewID[eventhook.Source](c.now), SourceSettings: eventhook.SourceSettings{RateLimit: setting}}
	for i := range instances {
		c.shared = append(c.shared, &sharedLimits{active: map[*limits]bool{}})
		c.exchange(i)
	}
	for i := range instances {
		c.exchange(i) // each knows the others
		cache := newLimitsCache(10, 1<<20, c.shared[i])
		c.limits = append(c.limits, cache.ofSource(source, c.now))
	}
	return c
}

func (c *cluster) exchange(i int) {
	_ = c.shared[i].exchange(context.Background(), c.store.of(i), time.Second, c.now)
}

// run sends requests per second to each instance for some seconds, and returns how many were
// accepted in all.
func (c *cluster) run(seconds int, perSecond ...float64) (accepted int) {
	const ticks = 500 // of a second
	for range seconds {
		for range ticks {
			c.now = c.now.Add(time.Second / ticks)
			for i, rate := range perSecond {
				c.remainder[i] += rate / ticks
				for ; c.remainder[i] >= 1; c.remainder[i]-- {
					accepted += c.send(i)
				}
			}
		}
		for i := range c.shared {
			c.exchange(i)
		}
	}
	return accepted
}

func (c *cluster) send(i int) int {
	l := c.limits[i]
	if l.verified.wait(c.now) > 0 {
		c.shared[i].note(l, false)
		return 0
	}
	isTaken := l.verified.take(c.now) == 0
	c.shared[i].note(l, isTaken)
	if isTaken {
		return 1
	}
	return 0
}

func TestLimitsHoldOverInstances(t *testing.T) {
	wide := eventhook.RateLimit{RequestsPerSecond: 100, RequestsPerMinute: 600_000, BurstSize: 50}
	for _, c := range []struct {
		claim     string
		setting   eventhook.RateLimit
		perSecond []float64
	}{
		{"one instance", wide, []float64{500}},
		{"equal loads", wide, []float64{300, 300}},
		{"one instance has all", wide, []float64{500, 0, 0}},
		{"unequal loads", wide, []float64{500, 60, 20}},
		{"five instances", wide, []float64{100, 100, 100, 100, 100}},
		{"sixty instances", eventhook.RateLimit{RequestsPerSecond: 100, RequestsPerMinute: 600_000, BurstSize: 600}, slices.Repeat([]float64{5}, 60)},
		{"a little too much", wide, []float64{60, 60}},
		{"per minute", eventhook.RateLimit{RequestsPerSecond: 1000, RequestsPerMinute: 6000, BurstSize: 1000}, []float64{300, 150}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			cluster := newSharingCluster(len(c.perSecond), c.setting)
			cluster.run(70, c.perSecond...) // uses up the bursts
			const seconds = 10
			got, want := float64(cluster.run(seconds, c.perSecond...)), 100.0*seconds
			if math.Abs(got-want) > want/10 {
				t.Errorf("%.0f requests were accepted in %d s, want %.0f within 10 %%", got, seconds, want)
			}
		})
	}
}

func TestLimitsFollowTheLoad(t *testing.T) {
	wide := eventhook.RateLimit{RequestsPerSecond: 100, RequestsPerMinute: 600_000, BurstSize: 10}
	cluster := newSharingCluster(3, wide)
	cluster.run(10, 200, 0, 0)
	for _, load := range [][]float64{{0, 200, 0}, {0, 0, 200}, {200, 200, 0}, {200, 0, 0}} {
		got, want := float64(cluster.run(10, load...)), 1000.0
		if math.Abs(got-want) > want/10 {
			t.Errorf("%v: %.0f requests were accepted in 10 s, want %.0f within 10 %%", load, got, want)
		}
	}
}

func TestSmallLoadsAreNotRefused(t *testing.T) {
	wide := eventhook.RateLimit{RequestsPerSecond: 100, RequestsPerMinute: 600_000, BurstSize: 50}
	cluster := newSharingCluster(4, wide)
	const seconds, want = 20, 20 * 54
	if got := cluster.run(seconds, 30, 20, 4, 0); got < want-1 {
		t.Errorf("%d of %d requests were accepted", got, want)
	}
}

func TestSharesStayWhileTheExchangeFails(t *testing.T) {
	wide := eventhook.RateLimit{RequestsPerSecond: 100, RequestsPerMinute: 600_000, BurstSize: 10}
	cluster := newSharingCluster(2, wide)
	cluster.run(10, 300, 100)
	cluster.store.down = true
	if got := cluster.run(10, 300, 100); got < 900 || got > 1100 {
		t.Errorf("%d requests were accepted in 10 s without an exchange, want 1000 within 10 %%", got)
	}
}

// A sender of forgeries, which are refused at the limit only, does not draw the limit to the instance
// that it floods.
func TestForgeriesDoNotDrawTheLimit(t *testing.T) {
	wide := eventhook.RateLimit{RequestsPerSecond: 100, RequestsPerMinute: 600_000, BurstSize: 10}
	cluster := newSharingCluster(2, wide)
	cluster.run(10, 60, 200)
	for range 20 {
		for range 10_000 {
			cluster.shared[0].note(cluster.limits[0], false)
		}
		cluster.run(1, 60, 200)
	}
	if part := cluster.limits[1].shared.part; part < 0.2 {
		t.Errorf("the other instance has %.2f of the limit, want at least 0.2", part)
	}
}
