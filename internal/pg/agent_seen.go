package pg

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// seenAgentsSQL records claims of agents. It changes nothing for an agent whose last recorded claim
// is within AgentSeenGap. A row changes in place (HOT). Lock order: agents by id. Primary keys.
const seenAgentsSQL = `
WITH seen AS MATERIALIZED (
    SELECT a.id, a.is_online, u.version FROM unnest($1::uuid[], $2::text[]) AS u (id, version) JOIN eventhook.agent a ON a.id = u.id
    WHERE NOT a.is_online OR a.last_seen_at <= $3::timestamptz - $4::interval OR a.program_version <> u.version
    ORDER BY a.id FOR UPDATE OF a
)
UPDATE eventhook.agent a SET is_online = true, last_seen_at = greatest(a.last_seen_at, $3), program_version = seen.version
FROM seen, eventhook.tenant t WHERE a.id = seen.id AND t.id = a.tenant_id
RETURNING a.id, a.tenant_id, a.name, t.slug, NOT seen.is_online`

// endAgentsSQL makes agents without a claim offline. Agents that another transaction changes are
// left for the next call. The table is small, so it has no index for this.
const endAgentsSQL = `
WITH silent AS MATERIALIZED (
    SELECT a.id FROM eventhook.agent a WHERE a.is_online AND a.last_seen_at <= $1::timestamptz - $2::interval
    ORDER BY a.id LIMIT 1000 FOR UPDATE OF a SKIP LOCKED
)
UPDATE eventhook.agent a SET is_online = false
FROM silent, eventhook.tenant t WHERE a.id = silent.id AND t.id = a.tenant_id
RETURNING a.id, a.tenant_id, a.name, t.slug, t.status <> 'closed'`

// SeenAgents records claims of agents, at most one for each agent, as their heartbeat. An agent that
// comes online is announced in the same transaction. Agents that do not exist any more are ignored.
func (db *DB) SeenAgents(ctx context.Context, seen []eventhook.AgentSighting) error {
	ids, versions := make([][16]byte, len(seen)), make([]string, len(seen))
	for i, s := range seen {
		ids[i], versions[i] = s.ID, s.ProgramVersion
	}
	_, err := db.changeAgents(ctx, "record the claims of agents", "agent.online", seenAgentsSQL, ids, versions, db.now(), eventhook.AgentSeenGap)
	return err
}

// EndAgents makes up to 1000 agents offline that have made no claim for AgentOfflineAfter, and
// announces each in the same transaction. It returns their number.
func (db *DB) EndAgents(ctx context.Context) (int, error) {
	return db.changeAgents(ctx, "find agents that are offline", "agent.offline", endAgentsSQL, db.now(), eventhook.AgentOfflineAfter)
}

// changeAgents runs a statement that returns the changed agents and whether to announce each. It
// returns the number of changed agents.
func (db *DB) changeAgents(ctx context.Context, act, event, sql string, args ...any) (changed int, err error) {
	var published announced
	err = db.retryDeadlocks(func() error {
		return db.inTx(ctx, act, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, sql, args...)
			if err != nil {
				return err
			}
			var events []*eventhook.Event
			if changed, events, err = agentEvents(rows, event); err != nil {
				return err
			}
			published, err = db.announceIn(ctx, tx, events, nil)
			return err
		})
	})
	if err == nil {
		db.notifyAnnounced(published)
	}
	return changed, err
}

// agentEvents returns the system events of the agents that changeAgents has changed.
func agentEvents(rows pgx.Rows, kind string) (changed int, events []*eventhook.Event, err error) {
	actor := announcedObject{Type: string(gatewayActor.Type), Name: gatewayActor.Name}
	var id eventhook.AgentID
	var tenant eventhook.TenantID
	var name, slug string
	var isAnnounced bool
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), (*[16]byte)(&tenant), &name, &slug, &isAnnounced}, func() error {
		if changed++; !isAnnounced {
			return nil
		}
		body, err := json.Marshal(announcement{Tenant: slug, Resource: announcedObject{"agent", id.String(), name}, Actor: actor})
		if err != nil {
			return err
		}
		events = append(events, newSystemEvent(tenant, kind, body))
		return nil
	})
	return changed, events, err
}

// agentCountsSQL reads all agents; their number is small.
const agentCountsSQL = `SELECT count(*) FILTER (WHERE last_seen_at > $1::timestamptz - $2::interval), count(*) FROM eventhook.agent`

// AgentCounts counts the agents of all tenants.
func (db *DB) AgentCounts(ctx context.Context) (n eventhook.AgentCounts, err error) {
	all := 0
	err = db.work.QueryRow(ctx, agentCountsSQL, db.now(), eventhook.AgentOfflineAfter).Scan(&n.Online, &all)
	n.Offline = all - n.Online
	return n, translate("count agents", err)
}
