package api

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
)

// WorkQueue is a queue of executions with open work.
type WorkQueue struct {
	Queue               string     `json:"queue"`
	Waiting             int        `json:"waiting" doc:"Executions to be claimed, now or later; at most 10000. Suspended workflows count only if they have a timeout."`
	Due                 int        `json:"due" doc:"Executions that a worker can claim now, at most 10000."`
	Running             int        `json:"running" doc:"Executions that a worker has claimed, at most 10000."`
	OldestDueAgeSeconds float64    `json:"oldest_due_age_seconds" doc:"How long the oldest execution has been due; 0 if none is."`
	OldestDueAt         *time.Time `json:"oldest_due_at" doc:"Null if none is due."`
}

type workQueuesAnswer struct {
	Body struct {
		AsOf  time.Time   `json:"as_of" doc:"When the values were read."`
		Items []WorkQueue `json:"items"`
	}
}

func (s *server) listWorkQueues(ctx context.Context, by caller, _ *TenantPath) (*workQueuesAnswer, error) {
	list, err := s.Overviews.WorkQueues(ctx, by.tenant)
	if err != nil {
		return nil, err
	}
	now, out := s.Now(), &workQueuesAnswer{}
	out.Body.AsOf, out.Body.Items = utc(now), make([]WorkQueue, len(list))
	for i, q := range list {
		v := WorkQueue{Queue: q.Queue, Waiting: q.Waiting, Due: q.Due, Running: q.Running, OldestDueAt: optionalUTC(q.OldestDueAt)}
		if q.OldestDueAt != nil {
			v.OldestDueAgeSeconds = max(0, now.Sub(*q.OldestDueAt).Seconds())
		}
		out.Body.Items[i] = v
	}
	return out, nil
}

// Usage is how much of its quotas a tenant has used.
type Usage struct {
	AsOf            time.Time `json:"as_of" doc:"When the values were read."`
	EventsToday     int64     `json:"events_today" doc:"Events stored since midnight UTC, including duplicates. Events of the last second may be missing."`
	MaxEventsPerDay *int64    `json:"max_events_per_day" doc:"Null: no limit."`
	EventsResetAt   time.Time `json:"events_reset_at" doc:"Next midnight UTC, when events_today becomes 0."`
	StorageBytes    int64     `json:"storage_bytes" doc:"Size of stored bodies and headers."`
	MaxStorageBytes *int64    `json:"max_storage_bytes" doc:"Null: no limit."`
	StorageResetAt  time.Time `json:"storage_reset_at" doc:"Next midnight UTC, after which the bodies of the oldest day may be deleted."`
}

type usageAnswer struct{ Body Usage }

func (s *server) getUsage(ctx context.Context, by caller, in *TenantPath) (*usageAnswer, error) {
	t, err := s.Admin.Tenant(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	used, err := s.Admin.TenantUsage(ctx, []eventhook.TenantID{by.tenant})
	if err != nil {
		return nil, err
	}
	const day = 24 * time.Hour
	now := s.Now()
	midnight := now.UTC().Truncate(day).Add(day)
	u := used[by.tenant]
	return &usageAnswer{Usage{utc(now), u.EventsToday, t.Quota.MaxEventsPerDay, midnight, u.StorageBytes, t.Quota.MaxStorageBytes, midnight}}, nil
}
