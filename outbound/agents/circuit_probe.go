package agents

import (
	"context"
	"net/http"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/schedule"
	"github.com/eventhook/eventhook/outbound/send"
)

// circuitProbeInterval is how often an instance reads the state of a probe of an open circuit.
const circuitProbeInterval = time.Second

// circuitProbe is a delivery by which an agent probes a destination whose circuit is open on this
// instance. Its result may reach another instance.
type circuitProbe struct {
	Key
	lease    eventhook.Lease
	attempts int       // before the probe
	readAt   time.Time // when its state was read last
}

// readProbes applies the results of probes of open circuits that other instances have stored, and ends
// probes whose lease is lost. Without a probe it reads nothing.
func (s *Service) readProbes(ctx context.Context, all []outbound.Destination) error {
	probes := s.unreadProbes(all)
	if len(probes) == 0 {
		return nil
	}
	keys := make([]Key, 0, len(probes))
	for _, p := range probes {
		keys = append(keys, p.Key)
	}
	list, err := s.Queue.HeldDeliveries(ctx, keys)
	if err != nil {
		return err
	}
	for _, h := range list {
		p := probes[h.DestinationID]
		if h.Status == eventhook.DeliveryAcquired && h.Lease.Token == p.lease.Token {
			continue
		}
		s.mu.Lock()
		s.endCircuitProbe(p, h)
		s.mu.Unlock()
	}
	return nil
}

// unreadProbes returns the probes of destinations whose state was not read within circuitProbeInterval.
func (s *Service) unreadProbes(all []outbound.Destination) map[eventhook.DestinationID]*circuitProbe {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, probes := s.Now(), map[eventhook.DestinationID]*circuitProbe{}
	for _, d := range all {
		p, isKnown := s.probes.Peek(d.ID)
		if !isKnown {
			continue
		}
		if g, ok := s.gates.Peek(d.ID); !ok || !g.IsProbing(now) {
			s.probes.Remove(d.ID)
		} else if now.Sub(p.readAt) >= circuitProbeInterval {
			p.readAt, probes[d.ID] = now, p
		}
	}
	return probes
}

// endCircuitProbe applies the result of a probe whose lease has ended. s.mu is locked.
func (s *Service) endCircuitProbe(p *circuitProbe, h Held) {
	g, ok := s.gates.Get(h.DestinationID)
	s.probes.Remove(h.DestinationID)
	switch {
	case !ok || !g.IsProbing(s.Now()):
	case h.Attempts <= p.attempts: // no result
		g.Cancel(p.lease.Until)
	default:
		a := eventhook.Attempt{StatusCode: h.StatusCode, ErrorClass: eventhook.ErrorClosed}
		if h.Status == eventhook.DeliverySuccess {
			a.StatusCode = http.StatusOK
		}
		if a.StatusCode != 0 {
			a.ErrorClass, _ = send.Classify("", a.StatusCode)
		}
		g.Finish(outbound.Observed(a), false, s.Now(), s.Chance)
	}
}

// beginCircuitProbe records a delivery that probes an open circuit. s.mu is locked.
func (s *Service) beginCircuitProbe(g *schedule.Gate, x Claimed, now time.Time) {
	if g.IsProbing(now) {
		s.probes.Add(x.DestinationID, &circuitProbe{Key{x.TenantID, x.ID}, x.Lease, x.Attempts, now})
	}
}
