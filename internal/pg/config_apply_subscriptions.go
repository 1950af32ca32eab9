package pg

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// applySubscriptions changes a tenant's subscriptions to the wanted ones; a configuration
// identifies subscriptions by name. The error is KindConflict if several subscriptions have a
// wanted name. It locks only the subscriptions that change, so that settling deliveries of
// other subscriptions does not wait.
func (a *configApply) applySubscriptions(ctx context.Context, want []eventhook.Subscription) error {
	have, err := a.db.subscriptionsOf(ctx, a.tx, a.tenant.ID, "")
	if err != nil {
		return err
	}
	left := make(map[string][]eventhook.Subscription, len(have))
	for _, s := range have {
		left[s.Name] = append(left[s.Name], s)
	}
	if err := a.lockChanging(ctx, left, want); err != nil {
		return err
	}
	created := 0
	ids := newIDsInOrder[eventhook.Subscription](a.db.now(), len(want))
	for i, s := range want {
		same := left[s.Name]
		delete(left, s.Name)
		s.ID = ids[i]
		if len(same) == 0 {
			created++
		}
		if err := a.applySubscription(ctx, same, s); err != nil {
			return err
		}
	}
	pruned, err := a.pruneSubscriptions(ctx, left)
	if err != nil {
		return err
	}
	if n := len(have) + created - pruned; n > max(len(have), eventhook.MaxSubscriptions) {
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf(
			"The tenant would have %d subscriptions, including those that the configuration does not name; at most %d are allowed.", n, eventhook.MaxSubscriptions)}
	}
	return nil
}

// lockSubscriptionRowsSQL locks subscriptions, lockHealthSQL their health: the counts of
// dead deliveries. Primary keys.
const (
	lockSubscriptionRowsSQL = `SELECT ` + subscriptionColumns + subscriptionTables + ` WHERE s.id = ANY($1) ORDER BY s.id` + lockSubscriptionsClause
	lockHealthSQL           = `SELECT FROM eventhook.subscription_health WHERE subscription_id = ANY($1) ORDER BY subscription_id FOR UPDATE`
)

// lockChanging locks the subscriptions that will be changed or deleted, and their health. It
// replaces their entries in have by the locked rows.
func (a *configApply) lockChanging(ctx context.Context, have map[string][]eventhook.Subscription, want []eventhook.Subscription) error {
	wanted := make(map[string]eventhook.Subscription, len(want))
	for _, s := range want {
		wanted[s.Name] = s
	}
	var ids [][16]byte
	for name, list := range have {
		w, isWanted := wanted[name]
		for _, s := range list {
			if isWanted && a.differs(s, w) || !isWanted && a.prune {
				ids = append(ids, s.ID)
			}
		}
	}
	if a.dryRun || len(ids) == 0 {
		return nil
	}
	rows, err := a.tx.Query(ctx, lockSubscriptionRowsSQL, ids)
	if err != nil {
		return err
	}
	locked, err := a.db.collectSubscriptions(rows)
	if err != nil {
		return err
	}
	for _, s := range locked {
		list := have[s.Name]
		list[slices.IndexFunc(list, func(was eventhook.Subscription) bool { return was.ID == s.ID })] = s
	}
	_, err = a.tx.Exec(ctx, lockHealthSQL, ids)
	return err
}

// differs reports whether a subscription is not as wanted. An update that is not possible
// counts as a difference; applying it reports the error.
func (a *configApply) differs(have, want eventhook.Subscription) bool {
	next, err := a.resolveSecrets(have, a.nextSubscription(have, want))
	if err != nil {
		return true
	}
	changes, err := diffSubscriptions(have, next)
	return err != nil || len(changes) > 0
}

func (a *configApply) applySubscription(ctx context.Context, same []eventhook.Subscription, want eventhook.Subscription) error {
	switch len(same) {
	case 0:
		a.report(eventhook.ChangeCreate, "subscription", nil, want.Name)
		_, err := a.addSubscription(ctx, want)
		return err
	case 1:
		_, fields, err := a.updateSubscription(ctx, same[0], a.nextSubscription(same[0], want))
		a.report(eventhook.ChangeUpdate, "subscription", fields, want.Name)
		return err
	}
	var ids []string
	for _, s := range same {
		ids = append(ids, s.ID.String())
	}
	return &eventhook.Error{Kind: eventhook.KindConflict, Message: fmt.Sprintf(
		"The tenant has %d subscriptions with the name %q, and a configuration file identifies them by name: rename or delete all but one of %s.",
		len(same), want.Name, strings.Join(ids, ", "))}
}

// nextSubscription returns the subscription with the wanted settings.
func (a *configApply) nextSubscription(have, want eventhook.Subscription) eventhook.Subscription {
	next := have
	next.EventTypes, next.Filter, next.SubscriptionSettings = want.EventTypes, want.Filter, want.SubscriptionSettings
	next.Status = cmp.Or(want.Status, have.Status)
	next.URL, next.AuthHeader, next.Auth = want.URL, want.AuthHeader, want.Auth
	if sameJSON(have.Filter, want.Filter) {
		next.Filter = have.Filter
	}
	if len(want.Signing) > 0 {
		next.Signing = eventhook.RotateSigningSecret(have.Signing, want.Signing[0].Secret, a.db.now(), eventhook.DefaultRotationGrace)
	}
	return next
}

// pruneSubscriptions deletes the subscriptions that were not named and returns their number.
func (a *configApply) pruneSubscriptions(ctx context.Context, left map[string][]eventhook.Subscription) (int, error) {
	if !a.prune {
		return 0, nil
	}
	var unnamed []eventhook.Subscription
	for _, list := range left {
		unnamed = append(unnamed, list...)
	}
	slices.SortFunc(unnamed, func(x, y eventhook.Subscription) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), slices.Compare(x.ID[:], y.ID[:]))
	})
	for _, s := range unnamed {
		a.report(eventhook.ChangeDelete, "subscription", nil, s.Name)
		if err := a.deleteSubscription(ctx, s); err != nil {
			return 0, err
		}
	}
	return len(unnamed), nil
}
