package pg

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// sealTargets seals the secrets of a route's targets as one text: a list with an
// object for each target, or null. It is "" without any.
func (m *manager) sealTargets(ctx context.Context, r eventhook.Route) (sealed string, err error) {
	if len(secretsOf(r.Targets)) == 0 {
		return "", nil
	}
	list := make([]string, len(r.Targets))
	for i, t := range r.Targets {
		list[i] = cmp.Or(t.Secrets.Reveal(), "null")
	}
	// Joined and not marshalled, so that each is read as it was written.
	return m.seal(ctx, routeTargetSecrets, r.ID, r.TenantID, "["+strings.Join(list, ",")+"]")
}

// openTargets gives a route's targets the secrets that sealTargets has sealed,
// all or none.
func (db *DB) openTargets(r *eventhook.Route, sealed *string) error {
	if sealed == nil {
		return nil
	}
	plain, err := db.open(routeTargetSecrets, r.ID, r.TenantID, *sealed)
	if err != nil {
		return err
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(plain), &list); err != nil || len(list) != len(r.Targets) {
		return errors.New("they are not those of its targets")
	}
	for i, secrets := range list {
		if string(secrets) != "null" {
			r.Targets[i].Secrets = eventhook.NewSecret(string(secrets))
		}
	}
	return nil
}

// secretsOf are the secrets of targets in their order, to be compared.
func secretsOf(targets []eventhook.Target) (all []eventhook.Secret) {
	for _, t := range targets {
		if !t.Secrets.IsZero() {
			all = append(all, t.Secrets)
		}
	}
	return all
}

// sameTarget reports whether two targets are set alike, and neither has a
// secret.
func sameTarget(a, b eventhook.Target) bool {
	return a.Type == b.Type && bytes.Equal(a.Settings, b.Settings) && a.Secrets.IsZero() && b.Secrets.IsZero()
}

// diffRoutes lists what differs between two states of a route; of secrets only
// that they do.
func diffRoutes(before, after eventhook.Route) ([]eventhook.FieldChange, error) {
	changes, err := eventhook.Diff(recordOfRoute(before), recordOfRoute(after))
	if err == nil && !slices.EqualFunc(secretsOf(before.Targets), secretsOf(after.Targets), eventhook.Secret.Equal) {
		changes = append(changes, secretsChanged)
	}
	return changes, err
}
