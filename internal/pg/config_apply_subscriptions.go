package pg

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// applySubscriptions brings a tenant's subscriptions, which are known by their
// names, to what is wanted. A wanted name that several have is a KindConflict.
// Only those are held that change: whoever counts the deliveries of others need
// not wait.
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
			"The tenant would have %d subscriptions, with those that stay though they are not named; at most %d are allowed.", n, eventhook.MaxSubscriptions)}
	}
	return nil
}

// lockSubscriptionRowsSQL and lockHealthSQL hold subscriptions, and what they count.
// Primary keys.
const (
	lockSubscriptionRowsSQL = `SELECT ` + subscriptionColumns + subscriptionTables + ` WHERE s.id = ANY($1) ORDER BY s.id` + lockSubscriptionsClause
	lockHealthSQL           = `SELECT FROM eventhook.subscription_health WHERE subscription_id = ANY($1) ORDER BY subscription_id FOR UPDATE`
)

// lockChanging holds the subscriptions that change or go, and their healths, and
// puts them as they are then in the place of what was read.
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
	held, err := a.db.collectSubscriptions(rows)
	if err != nil {
		return err
	}
	for _, s := range held {
		list := have[s.Name]
		list[slices.IndexFunc(list, func(was eventhook.Subscription) bool { return was.ID == s.ID })] = s
	}
	_, err = a.tx.Exec(ctx, lockHealthSQL, ids)
	return err
}

// differs reports whether a subscription is not as it is wanted, or cannot be.
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
		"The tenant has %d subscriptions with the name %q, and a file knows them by their names: rename or delete all but one of %s.",
		len(same), want.Name, strings.Join(ids, ", "))}
}

// nextSubscription is what a subscription becomes by what is wanted.
func (a *configApply) nextSubscription(have, want eventhook.Subscription) eventhook.Subscription {
	next := have
	next.EventTypes, next.Filter, next.SubscriptionSettings = want.EventTypes, want.Filter, want.SubscriptionSettings
	next.Status = cmp.Or(want.Status, have.Status)
	next.URL, next.AuthHeader = want.URL, want.AuthHeader
	if sameJSON(have.Filter, want.Filter) {
		next.Filter = have.Filter
	}
	if len(want.Signing) > 0 {
		next.Signing = eventhook.RotateSigningSecret(have.Signing, want.Signing[0].Secret, a.db.now(), eventhook.DefaultRotationGrace)
	}
	return next
}

// pruneSubscriptions deletes those that were not named, and counts them.
func (a *configApply) pruneSubscriptions(ctx context.Context, left map[string][]eventhook.Subscription) (int, error) {
	if !a.prune {
		return 0, nil
	}
	var going []eventhook.Subscription
	for _, list := range left {
		going = append(going, list...)
	}
	slices.SortFunc(going, func(x, y eventhook.Subscription) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), slices.Compare(x.ID[:], y.ID[:]))
	})
	for _, s := range going {
		a.report(eventhook.ChangeDelete, "subscription", nil, s.Name)
		if err := a.deleteSubscription(ctx, s); err != nil {
			return 0, err
		}
	}
	return len(going), nil
}
