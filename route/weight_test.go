package route_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/route"
)

// publisher is a target that publishes its input.
type publisher struct{}

func (publisher) Effect(_ *eventhook.Event, v *payload.View, now time.Time) (effects.Effect, error) {
	return effects.Effect{Publication: &effects.Publication{ID: eventhook.NewID[eventhook.Event](now), EventType: "e", Data: v.Render()}}, nil
}

func compilePublisher(eventhook.Target) (route.Effector, error) { return publisher{}, nil }

// sized returns an event whose body has n bytes.
func sized(n int) *eventhook.Event {
	e := newEvent("push")
	e.Body = json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`)
	return e
}

// kinds returns n kinds of tasks.
func kinds(n int) []string { return strings.Fields(strings.Repeat("k ", n)) }

func TestTheEffectsOfAnEventAreBounded(t *testing.T) {
	p := route.Compile(eventhook.RetryPolicy{}, []eventhook.Route{newRoute("wide", "", kinds(10)...)}, compilePublisher)
	s := p.Settle(nil, sized(20<<20), nil, noon)
	var done, refused int
	for _, a := range s.Actions {
		switch {
		case a.Failure == "" && a.Effect.Publication != nil:
			done++
		case a.Permanent && a.Effect == (effects.Effect{}) && strings.Contains(a.Failure, "at most 64 MiB in all"):
			refused++
		}
	}
	if done != 3 || refused != 7 || s.EffectBytes != 60<<20 {
		t.Errorf("got %d publications, %d refused, %d bytes; want 3 of 20 MiB and 7 refused", done, refused, s.EffectBytes)
	}
}

func TestTheEffectsOfATransactionAreBounded(t *testing.T) {
	for _, c := range []struct {
		claim          string
		body, targets  int
		actions, bytes int // at most
	}{
		{"many targets", 10, 1000, 6000, 1 << 20},
		{"large bodies", 3 << 20, 1, 100, 19 << 20},
	} {
		t.Run(c.claim, func(t *testing.T) {
			inBubble(t, func(config *route.Config) { largeQueue(config); config.InboxBytes = 1 << 30 }, func(t *testing.T, b *harness) {
				b.compile = compilePublisher
				b.settling = func(batch []*effects.Settlement) {
					actions, bytes := 0, 0
					for _, s := range batch {
						actions, bytes = actions+len(s.Actions), bytes+s.EffectBytes
					}
					if actions > c.actions || bytes > c.bytes {
						t.Errorf("got %d actions and %d bytes in one transaction, want at most %d and %d", actions, bytes, c.actions, c.bytes)
					}
				}
				body := sized(c.body).Body
				var events []*eventhook.Event
				for range b.Reserve(20) {
					e := b.add("push", lease)
					e.Body = body
					events = append(events, e)
				}
				b.Put(events)
				b.run()
				b.pass(time.Second)
				b.wantStatuses(states{eventhook.EventDelivered: 20})
			}, newRoute("wide", "", kinds(c.targets)...))
		})
	}
}

func TestLargeEffectsDelayNoOtherTenant(t *testing.T) {
	inBubble(t, largeQueue, func(t *testing.T, b *harness) {
		release := make(chan struct{})
		b.settling = func(batch []*effects.Settlement) {
			if len(batch[0].Actions) > 1 {
				<-release
			}
		}
		b.handOverOf(5, slowTenant, 1, newRoute("wide", "", kinds(300)...))
		b.handOverOf(5, plainTenant, 2, newRoute("plain", "", "ok"))
		b.run()
		if got := b.delivered(plainTenant); got != 5 {
			t.Errorf("got %d events delivered while another tenant's are settled, want 5", got)
		}
		close(release)
		b.pass(time.Second)
		if got := b.delivered(slowTenant); got != 5 {
			t.Errorf("got %d events with many targets delivered in the end, want 5", got)
		}
	})
}

func TestExplanationsAreBounded(t *testing.T) {
	wide := newRoute("wide", "", kinds(10)...)
	wide.IsEnabled = true
	p := route.Compile(eventhook.RetryPolicy{}, []eventhook.Route{wide}, compilePublisher)
	x := explain(t, p, sized(3<<20))
	inputs := 0
	for _, a := range x[0].Actions {
		if !a.IsLeftOut {
			inputs++
		}
	}
	if len(x[0].Actions) != 10 || inputs != 2 {
		t.Errorf("got %d inputs of %d actions, want 2 of 3 MiB each", inputs, len(x[0].Actions))
	}
}
