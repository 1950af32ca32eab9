package main

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

// systemStatus describes an instance and its database for the API.
type systemStatus struct{ *gateway }

// System returns the state of the instance. It fails if the database does.
func (g systemStatus) System(ctx context.Context) (x api.System, err error) {
	at, c := now().UTC(), g.config
	x = api.System{
		AsOf: at, Version: version, EncryptionKeyIDs: g.keys.ring.KeyIDs(), DatabaseKeyID: g.db.CanaryKey(),
		Retention: api.SystemRetention{EventsDays: c.Retention.EventsDays, BodiesDays: c.Retention.BodiesDays,
			DeliveriesDays: c.Retention.DeliveriesDays, AuditDays: c.Retention.AuditDays},
		Instance: api.SystemInstance{ID: g.db.Instance().String(), Roles: c.Roles, StartedAt: g.startedAt.UTC(),
			UptimeSeconds: int64(at.Sub(g.startedAt) / time.Second), IsReady: true},
		Connections: g.connections(), Replica: g.replica(),
	}
	if reason := g.db.Fit(); reason != nil {
		x.Instance.IsReady, x.Instance.NotReady = false, reason.Error()
	}
	if x.SchemaVersion, x.SchemaSupported, err = g.db.SchemaVersion(ctx); err != nil {
		return x, err
	}
	began := time.Now()
	if _, err = g.db.Time(ctx); err != nil {
		return x, err
	}
	x.DatabaseRoundTripMS = float64(time.Since(began).Microseconds()) / float64(time.Millisecond/time.Microsecond)
	if x.DatabaseBytes, err = g.db.Bytes(ctx); err != nil {
		return x, err
	}
	x.Queues, err = g.queues(ctx)
	return x, err
}

func (g systemStatus) connections() (list []api.SystemConnections) {
	for _, name := range []string{"accept", "work", "lists", "read"} {
		if p := g.db.Pool(name); p.Max > 0 {
			list = append(list, api.SystemConnections{Pool: name, Used: p.Used, Idle: p.Idle, Max: p.Max})
		}
	}
	return list
}

func (g systemStatus) replica() api.SystemReplica {
	r := api.SystemReplica{IsConfigured: g.db.Pool("read").Max > 0, IsUsed: g.db.IsReplicaUsed()}
	if lag, ok := g.db.ReplicaLag(); ok {
		r.LagSeconds = new(lag.Seconds())
	}
	return r
}

func (g systemStatus) queues(ctx context.Context) (q api.SystemQueues, err error) {
	events, err := g.db.EventQueue(ctx)
	if err != nil {
		return q, err
	}
	executions, err := g.db.ExecutionQueue(ctx)
	if err != nil {
		return q, err
	}
	deliveries, err := g.db.DeliveryQueue(ctx, eventhook.BlockedDestinations{})
	return api.SystemQueues{Events: viewQueue(events), Executions: viewQueue(executions), Deliveries: viewQueue(deliveries)}, err
}

func viewQueue(s eventhook.QueueState) api.SystemQueue {
	parked := map[string]int{}
	for reason, n := range s.Parked {
		parked[string(reason)] = n
	}
	return api.SystemQueue{Due: s.Depth, OldestAgeSeconds: s.Age.Seconds(), Parked: parked}
}
