package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/seal"
	"github.com/eventhook/eventhook/migrations"
	"github.com/eventhook/eventhook/outbound"
)

// What is claimed, and beside what.
const (
	claimBatch    = 100
	claimEach     = 50 * claimBatch // deliveries in one measurement
	claimRounds   = 5
	dueBeside     = 1_000_000 // half of them to the subscriber that is measured
	mostClaimCost = 1.25
)

// claimed is what one round gave, in microseconds for each delivery.
type claimed struct{ none, many float64 }

// claimCost holds what it costs to find, claim and settle deliveries beside many
// that have ended and many that are due against what it costs beside none.
func (r *run) claimCost(ctx context.Context) error {
	r.print("claims: beside %d deliveries that have ended and %d that are due, and beside none; %d rounds of %d in turn\n", r.settled, dueBeside, claimRounds, claimEach)
	none, endNone, err := r.claimPlace(ctx, "claims-none", 0, 0)
	if err != nil {
		return err
	}
	defer endNone()
	many, endMany, err := r.claimPlace(ctx, "claims-many", r.settled, dueBeside)
	if err != nil {
		return err
	}
	defer endMany()
	var rounds []claimed
	for round := range claimRounds + 1 { // the first warms up
		var x claimed
		if x.none, err = none.measure(ctx); err != nil {
			return err
		}
		if x.many, err = many.measure(ctx); err != nil {
			return err
		}
		if round > 0 {
			rounds = append(rounds, x)
			r.print("  found, claimed and settled: beside none %5.1fµs   beside many %5.1fµs (%.2f)\n", x.none, x.many, x.many/x.none)
		}
	}
	r.ratios = append(r.ratios, ratio{"claim and settle a delivery beside many / beside none", medianOf(rounds, func(x claimed) float64 { return x.many / x.none }), mostClaimCost, true})
	return nil
}

// claimPlace is a database with deliveries, and nobody else who claims them.
type claimPlace struct {
	conn   *pgx.Conn
	queue  *pg.DB
	tenant eventhook.TenantID
	lanes  []eventhook.SubscriptionID // the first is measured
}

// claimPlace makes a database in which so many deliveries have ended and so many
// are due: half of those to the subscriber that is measured, and half to others.
// The end is the caller's to call.
func (r *run) claimPlace(ctx context.Context, name string, ended, due int) (p *claimPlace, end func(), err error) {
	server, err := pgembed.Start(ctx, pgembed.Options{DataDir: filepath.Join(r.dir, name)})
	if err != nil {
		return nil, nil, err
	}
	ends := []func(){func() { _ = server.Stop(context.WithoutCancel(ctx)) }}
	end = func() {
		for i := range ends {
			ends[len(ends)-1-i]()
		}
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	if err = migrations.Up(ctx, server.DSN(pgembed.Database)); err != nil {
		return nil, nil, err
	}
	p = &claimPlace{tenant: eventhook.NewID[eventhook.Tenant](time.Now())}
	if p.conn, err = pgx.Connect(ctx, server.DSN(pgembed.Database)); err != nil {
		return nil, nil, err
	}
	ends = append(ends, func() { _ = p.conn.Close(context.WithoutCancel(ctx)) })
	keys, err := seal.New(seal.NewKey())
	if err != nil {
		return nil, nil, err
	}
	db, err := pg.Open(ctx, server.DSN(pgembed.Database), pg.Options{Sealer: keys, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	ends = append(ends, db.Close)
	p.queue = db
	return p, end, p.fill(ctx, ended, due)
}

const beside = 10 // other subscribers

// fill makes the tenant, its subscribers, and what lies beside what is measured.
func (p *claimPlace) fill(ctx context.Context, ended, due int) error {
	if _, err := p.conn.Exec(ctx, `INSERT INTO eventhook.tenant (id, slug, name) VALUES ($1, $2, $2)`, [16]byte(p.tenant), benchTenant); err != nil {
		return err
	}
	for range beside + 1 {
		p.lanes = append(p.lanes, eventhook.NewID[eventhook.Subscription](time.Now()))
	}
	slices.SortFunc(p.lanes, func(a, b eventhook.SubscriptionID) int { return bytes.Compare(a[:], b[:]) })
	var list []owing
	for i, id := range p.lanes {
		if _, err := p.conn.Exec(ctx, `INSERT INTO eventhook.subscription (id, tenant_id, name, status, event_types, settings, secrets, created_at, updated_at)
			VALUES ($1, $2, 'bench', 'active', '{*}', '{}', '', now(), now())`, [16]byte(id), [16]byte(p.tenant)); err != nil {
			return err
		}
		if _, err := p.conn.Exec(ctx, `INSERT INTO eventhook.subscription_health (subscription_id) VALUES ($1)`, [16]byte(id)); err != nil {
			return err
		}
		const half = 2
		endedHere, dueHere := ended/(beside+1), due/half/beside
		if i == 0 && due > 0 { // those that will be claimed, of an event each, and the rest behind them
			const ahead = claimEach * (claimRounds + 1)
			list = append(list, owing{id.String(), ahead, 1, true})
			dueHere = due/half - ahead
		}
		if endedHere > 0 {
			list = append(list, owing{id.String(), endedHere / deliveriesOf, deliveriesOf, false})
		}
		if dueHere > 0 {
			list = append(list, owing{id.String(), dueHere / deliveriesOf, deliveriesOf, true})
		}
	}
	return owe(ctx, p.conn, p.tenant, list...)
}

// measure makes deliveries that are due, of an event each, and does as many, the
// oldest first. It tells what one costs.
func (p *claimPlace) measure(ctx context.Context) (micros float64, err error) {
	if err := owe(ctx, p.conn, p.tenant, owing{p.lanes[0].String(), claimEach, 1, true}); err != nil {
		return 0, err
	}
	began := time.Now()
	for done := 0; done < claimEach; done += claimBatch {
		if err := p.round(ctx); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(began).Microseconds()) / claimEach, nil
}

// round is what a dispatcher does: it finds lanes, claims from one, and settles.
func (p *claimPlace) round(ctx context.Context) error {
	const lanes = 100
	found, err := p.queue.DueDestinations(ctx, eventhook.DestinationID{}, lanes)
	if err != nil {
		return err
	}
	if len(found) == 0 || found[0].DestinationID != eventhook.DestinationID(p.lanes[0]) {
		return fmt.Errorf("%d lanes were found, want the one that is measured first", len(found))
	}
	list, err := p.queue.ClaimDeliveries(ctx, []outbound.Claim{{DestinationID: eventhook.DestinationID(p.lanes[0]), Max: claimBatch, Lease: time.Minute}})
	if err != nil {
		return err
	}
	if len(list) != claimBatch {
		return fmt.Errorf("%d deliveries were claimed, want %d", len(list), claimBatch)
	}
	batch := make([]*outbound.DeliverySettlement, len(list))
	for i, d := range list {
		batch[i] = &outbound.DeliverySettlement{Delivery: d, Status: eventhook.DeliverySuccess, DeadInRow: eventhook.DefaultDisableAfterFailures,
			Attempt: &eventhook.Attempt{StartedAt: time.Now(), Duration: time.Millisecond, StatusCode: 200}}
	}
	lost, err := p.queue.SettleDeliveries(ctx, batch)
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("%d leases were lost", len(lost))
	}
	return err
}
