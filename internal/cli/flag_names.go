package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
)

// flagOfMember has the flags whose names differ from the parameter or member that they set.
var flagOfMember = map[string]string{
	"event_type": "type", "event_types": "type", "filter_event_types": "type",
	"received_after": "since", "created_after": "since", "received_before": "until", "created_before": "until",
	"subscription_id": "subscription", "route_id": "route", "event_id": "event", "source_id": "source",
	"secrets": "secret", "signing_secret": "secret", "options": "option", "target_labels": "label", "scopes": "scope", "expires_at": "expires",
	"rate_limit.burst_size": "burst", "rate_limit.requests_per_second": "requests-per-second", "rate_limit.requests_per_minute": "requests-per-minute",
	"disable_after_failures": "disable-after", "timeout_seconds": "timeout", "rate_per_second": "rate", "grace_seconds": "grace", "allowed_ip_ranges": "allow-from",
}

// namingFlags replaces the locations of a refused request, such as query.received_after, by the
// flags of the command that set them, such as --since, and the parameter ?cascade=true by its
// flag. Other locations, such as members of a file, stay.
func namingFlags(cmd *cobra.Command, err error) error {
	problem, ok := errors.AsType[*client.Problem](err)
	if !ok {
		return err
	}
	if cmd.Flags().Lookup("cascade") != nil {
		problem.Detail = strings.ReplaceAll(problem.Detail, "?cascade=true", "--cascade")
	}
	for i, f := range problem.Errors {
		if name := flagOf(cmd, f.Location, f.Message == isMissing); name != "" {
			problem.Errors[i].Location = "--" + name
		}
	}
	return err
}

// isMissing is the API's message for a required member that is absent.
const isMissing = "is required"

// flagOf returns the name of the flag that sets the value at a location, or "". The flag must
// have been given, unless the value is missing.
func flagOf(cmd *cobra.Command, location string, missing bool) string {
	part, path, _ := strings.Cut(location, ".")
	if part != "query" && part != "body" {
		return ""
	}
	if ofRoute, isOfRoute := strings.CutPrefix(path, "route."); isOfRoute { // of a backtest
		path = ofRoute
	} else {
		path = strings.TrimPrefix(path, "filter.")
	}
	member := path
	if end := strings.IndexAny(path, ".["); end >= 0 {
		member = path[:end]
	}
	name, ok := flagOfMember[path]
	if !ok {
		name, ok = flagOfMember[member]
	}
	if !ok {
		name = strings.ReplaceAll(member, "_", "-")
	}
	if cmd.Flags().Changed(name) || missing && cmd.Flags().Lookup(name) != nil {
		return name
	}
	return ""
}
