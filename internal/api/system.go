package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// SystemStatus describes this instance and the database. It returns no secrets.
type SystemStatus interface {
	System(ctx context.Context) (System, error)
}

// System describes an instance of the gateway and its database.
type System struct {
	AsOf                time.Time           `json:"as_of" doc:"When the values were read."`
	Version             string              `json:"version" doc:"Version of the program of this instance."`
	SchemaVersion       int64               `json:"schema_version" doc:"Version of the schema of the database."`
	SchemaSupported     int64               `json:"schema_supported" doc:"Version of the schema that this program supports."`
	Instance            SystemInstance      `json:"instance" doc:"The instance that answers. The database has no list of instances."`
	EncryptionKeyIDs    []string            `json:"encryption_key_ids" doc:"Ids of the configured encryption keys; the first encrypts."`
	DatabaseKeyID       string              `json:"database_key_id" doc:"Id of the key with which the database was last encrypted; empty if none."`
	Retention           SystemRetention     `json:"retention"`
	DatabaseBytes       int64               `json:"database_bytes" doc:"Size of the database."`
	DatabaseRoundTripMS float64             `json:"database_round_trip_ms" doc:"Duration of the smallest statement."`
	Connections         []SystemConnections `json:"connections" doc:"Pools of connections of this instance."`
	Queues              SystemQueues        `json:"queues" doc:"Queues of all tenants."`
	Replica             SystemReplica       `json:"replica"`
}

// SystemInstance is the instance that answers.
type SystemInstance struct {
	ID            string    `json:"id" format:"uuid" doc:"Changes with each start."`
	Roles         []string  `json:"roles"`
	StartedAt     time.Time `json:"started_at"`
	UptimeSeconds int64     `json:"uptime_seconds"`
	IsReady       bool      `json:"is_ready"`
	NotReady      string    `json:"not_ready_reason" doc:"Empty if the instance is ready."`
}

// SystemRetention is how long data is kept, in days. 0 means forever.
type SystemRetention struct {
	EventsDays     int `json:"events_days"`
	BodiesDays     int `json:"bodies_days"`
	DeliveriesDays int `json:"deliveries_days"`
	AuditDays      int `json:"audit_days"`
}

// SystemConnections is the state of a pool of database connections.
type SystemConnections struct {
	Pool string `json:"pool" enum:"accept,work,lists,read"`
	Used int    `json:"used"`
	Idle int    `json:"idle"`
	Max  int    `json:"max"`
}

// SystemQueue is the state of a queue of all tenants.
type SystemQueue struct {
	Due              int            `json:"due" doc:"Work that should be done now, at most 100000."`
	OldestAgeSeconds float64        `json:"oldest_age_seconds" doc:"How long the oldest of it is due."`
	Parked           map[string]int `json:"parked" doc:"Work that waits for something outside the gateway, by reason."`
}

// SystemQueues are the queues of all tenants.
type SystemQueues struct {
	Events     SystemQueue `json:"events"`
	Executions SystemQueue `json:"executions"`
	Deliveries SystemQueue `json:"deliveries"`
}

// SystemReplica is the replica from which lists are read.
type SystemReplica struct {
	IsConfigured bool     `json:"is_configured"`
	IsUsed       bool     `json:"is_used" doc:"Lists are read from the replica now."`
	LagSeconds   *float64 `json:"lag_seconds" doc:"Upper bound of the age of the replica's data; null if unknown."`
}

type systemAnswer struct{ Body System }

func (s *server) registerSystem(api huma.API) {
	register(s, api, operation{id: "get-system", method: http.MethodGet, path: "/api/admin/system", tag: "admin", summary: "Get the state of the gateway",
		about: "Describes the instance that answers, and the database."},
		func(ctx context.Context, _ caller, _ *struct{}) (*systemAnswer, error) {
			x, err := s.System.System(ctx)
			return &systemAnswer{x}, err
		})
}
