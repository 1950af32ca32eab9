package pg

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

const agentColumns = `a.id, a.tenant_id, a.name, a.labels, a.version, a.program_version, a.last_seen_at, a.created_at, a.updated_at`

// heldByAgents counts the deliveries that each agent of the tenant $1 holds at $2. Index
// delivery_held.
const heldByAgents = `SELECT d.acquired_by, count(*) AS held FROM eventhook.delivery d
    WHERE d.tenant_id = $1 AND d.agent_leases IS NOT NULL AND d.status = 'acquired' AND d.due_at > $2 GROUP BY d.acquired_by`

const agentsWithHeld = `SELECT ` + agentColumns + `, coalesce(h.held, 0) FROM eventhook.agent a LEFT JOIN (` + heldByAgents + `) h ON h.acquired_by = a.id
WHERE a.tenant_id = $1`

func scanAgent(row pgx.Row, more ...any) (a eventhook.Agent, err error) {
	err = row.Scan(append([]any{(*[16]byte)(&a.ID), (*[16]byte)(&a.TenantID), &a.Name, &a.Labels, &a.Version, &a.ProgramVersion,
		&a.LastSeenAt, &a.CreatedAt, &a.UpdatedAt}, more...)...)
	return a, err
}

// agentRecord is the part of an agent that audit entries show.
type agentRecord struct {
	Name   string   `json:"name"`
	Labels []string `json:"labels"`
}

func recordOfAgent(a eventhook.Agent) agentRecord { return agentRecord{a.Name, a.Labels} }

func resourceOfAgent(a eventhook.Agent) resource { return resource{"agent", a.ID.String(), a.Name} }

// Agent returns one of a tenant's agents, or KindNotFound. Primary key.
func (db *DB) Agent(ctx context.Context, tenant eventhook.TenantID, id eventhook.AgentID) (eventhook.Agent, error) {
	held := 0
	a, err := scanAgent(db.work.QueryRow(ctx, agentsWithHeld+` AND a.id = $3`, [16]byte(tenant), db.now(), [16]byte(id)), &held)
	a.Held = held
	return a, translate("find agent", notFound(err, "agent"))
}

// Agents lists a tenant's agents, newest first. Index agent_tenant.
func (db *DB) Agents(ctx context.Context, tenant eventhook.TenantID, f eventhook.AgentFilter) ([]eventhook.Agent, error) {
	rows, err := db.lists.Query(ctx, agentsWithHeld+` AND a.id < $3 ORDER BY a.id DESC LIMIT $4`, [16]byte(tenant), db.now(), cursorArg(f.Before), f.Limit)
	if err != nil {
		return nil, translate("list agents", err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (a eventhook.Agent, err error) {
		held := 0
		a, err = scanAgent(r, &held)
		a.Held = held
		return a, err
	})
	return list, translate("list agents", err)
}

// AgentLabels returns each combination of labels that an agent of one of the tenants has. Index
// agent_tenant.
func (db *DB) AgentLabels(ctx context.Context, tenants []eventhook.TenantID) (map[eventhook.TenantID][][]string, error) {
	rows, err := db.work.Query(ctx, `SELECT DISTINCT tenant_id, labels FROM eventhook.agent WHERE tenant_id = ANY($1)`, uuids(tenants))
	if err != nil {
		return nil, translate("read the labels of agents", err)
	}
	all := map[eventhook.TenantID][][]string{}
	var tenant eventhook.TenantID
	var labels []string
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&tenant), &labels}, func() error {
		all[tenant] = append(all[tenant], slices.Clone(labels))
		return nil
	})
	return all, translate("read the labels of agents", err)
}

// CreateAgent creates an agent with a key, whose hash is stored. The error is KindConflict if the
// tenant is closed, has an agent of the name, or would have too many agents. The caller must have
// validated a.
func (db *DB) CreateAgent(ctx context.Context, by eventhook.Actor, a eventhook.Agent, key eventhook.NewKey) (eventhook.Agent, error) {
	a.ID, a.Version, a.CreatedAt, a.UpdatedAt = eventhook.NewID[eventhook.Agent](db.now()), 1, db.now(), db.now()
	err := db.mutate(ctx, "create agent", by, a.TenantID, func(m *mutation) error {
		if err := m.checkAgentLimit(ctx); err != nil {
			return err
		}
		err := m.exec(ctx, `INSERT INTO eventhook.agent (id, tenant_id, name, labels, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $5)`,
			[16]byte(a.ID), [16]byte(a.TenantID), a.Name, a.Labels, a.CreatedAt)
		if err != nil {
			return agentNameTaken(err, a.Name)
		}
		if _, err := m.record("agent.registered", resourceOfAgent(a), nil, recordOfAgent(a)); err != nil {
			return err
		}
		return m.createAgentKey(ctx, a, key)
	})
	return a, err
}

func agentNameTaken(err error, name string) error {
	return nameTaken(err, "The tenant has an agent with the name %q.", name)
}

// checkAgentLimit returns a KindConflict if the tenant has the maximum number of agents. Agents
// that are created at the same moment can exceed it.
func (m *mutation) checkAgentLimit(ctx context.Context) error {
	var n int
	err := m.tx.QueryRow(ctx, `SELECT count(*) FROM eventhook.agent WHERE tenant_id = $1`, [16]byte(m.tenant.ID)).Scan(&n)
	if err == nil && n >= eventhook.MaxAgents {
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf("The tenant has %d agents, the maximum.", n)}
	}
	return err
}

// UpdateAgent changes an agent in one transaction. change receives the current agent and returns
// the wanted one. A version other than 0 must be the current one, otherwise the error is ErrStale.
// Another error is KindNotFound, KindConflict for a name that another agent has, or change's.
func (db *DB) UpdateAgent(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, id eventhook.AgentID, version int64,
	change func(eventhook.Agent) (eventhook.Agent, error),
) (a eventhook.Agent, err error) {
	err = db.mutate(ctx, "change agent", by, tenant, func(m *mutation) error {
		have, err := m.lockAgent(ctx, id, version)
		if err != nil {
			return err
		}
		if a, err = change(have); err != nil {
			return err
		}
		changed, err := m.record("agent.updated", resourceOfAgent(a), recordOfAgent(have), recordOfAgent(a))
		if err != nil || !changed {
			return err
		}
		a.Version, a.UpdatedAt = have.Version+1, m.db.now()
		return agentNameTaken(m.exec(ctx, `UPDATE eventhook.agent SET name = $2, labels = $3, version = $4, updated_at = $5 WHERE id = $1`,
			[16]byte(id), a.Name, a.Labels, a.Version, a.UpdatedAt), a.Name)
	})
	return a, err
}

// lockAgent reads and locks one of the tenant's agents. A version other than 0 must be the current
// one, otherwise the error is ErrStale.
func (m *mutation) lockAgent(ctx context.Context, id eventhook.AgentID, version int64) (eventhook.Agent, error) {
	a, err := scanAgent(m.tx.QueryRow(ctx, `SELECT `+agentColumns+` FROM eventhook.agent a WHERE a.tenant_id = $1 AND a.id = $2 FOR UPDATE`,
		[16]byte(m.tenant.ID), [16]byte(id)))
	if err != nil {
		return a, notFound(err, "agent")
	}
	return a, checkVersion(version, a.Version)
}

// DeleteAgent deletes an agent and its keys. Its leases run out. A version other than 0 must be the
// current one, otherwise the error is ErrStale.
func (db *DB) DeleteAgent(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, id eventhook.AgentID, version int64) error {
	return db.mutate(ctx, "delete agent", by, tenant, func(m *mutation) error {
		a, err := m.lockAgent(ctx, id, version)
		if err != nil {
			return err
		}
		if err := m.deleteAgentKeys(ctx, id, true); err != nil {
			return err
		}
		if err := m.exec(ctx, `DELETE FROM eventhook.agent WHERE id = $1`, [16]byte(id)); err != nil {
			return err
		}
		_, err = m.record("agent.deleted", resourceOfAgent(a), recordOfAgent(a), nil)
		return err
	})
}

// RotateAgentKey creates a key of an agent. The previous key ends after the grace period, at once if
// that is 0; keys before it end at once. The error is KindNotFound if the tenant has no such agent.
func (db *DB) RotateAgentKey(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, id eventhook.AgentID,
	key eventhook.NewKey, grace time.Duration,
) error {
	return db.mutate(ctx, "rotate the key of an agent", by, tenant, func(m *mutation) error {
		a, err := m.lockAgent(ctx, id, 0)
		if err != nil {
			return err
		}
		if err := m.deleteAgentKeys(ctx, id, grace == 0); err != nil {
			return err
		}
		err = m.exec(ctx, `UPDATE eventhook.api_key SET expires_at = $2 WHERE agent_id = $1`, [16]byte(id), m.db.now().Add(grace))
		if err != nil {
			return err
		}
		return m.createAgentKey(ctx, a, key)
	})
}

func (m *mutation) createAgentKey(ctx context.Context, a eventhook.Agent, key eventhook.NewKey) error {
	return m.createKey(ctx, eventhook.APIKey{ID: eventhook.NewID[eventhook.APIKey](m.db.now()), TenantID: a.TenantID, AgentID: a.ID, Name: a.Name,
		Prefix: key.Prefix, Scopes: []eventhook.Scope{eventhook.ScopeDeliver}, CreatedAt: m.db.now()}, key.Hash)
}

// deleteAgentKeys deletes all keys of an agent, or those that a rotation has replaced. Index
// api_key_agent.
func (m *mutation) deleteAgentKeys(ctx context.Context, id eventhook.AgentID, all bool) error {
	rows, err := m.tx.Query(ctx, `DELETE FROM eventhook.api_key k WHERE k.agent_id = $1 AND ($2 OR k.expires_at IS NOT NULL) RETURNING `+keyColumns,
		[16]byte(id), all)
	if err != nil {
		return err
	}
	keys, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (eventhook.APIKey, error) { return scanKey(r) })
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err := m.recordDeletedKey(k); err != nil {
			return err
		}
	}
	return nil
}
