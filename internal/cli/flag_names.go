package cli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eventhook/eventhook/client"
)

// flagOfMember has the flags whose names differ from the parameter or member that they set.
var flagOfMember = map[string]string{
	"event_type": "type", "event_types": "type", "filter_event_types": "type",
	"received_after": "since", "created_after": "since", "received_before": "until", "created_before": "until",
	"subscription_id": "subscription", "route_id": "route", "event_id": "event", "source_id": "source",
	"secrets": "secret", "signing_secret": "secret", "options": "option", "target_labels": "label", "scopes": "scope",
	"expires_at": "expires", "rate_limit.burst_size": "burst",
	"rate_limit.requests_per_second": "requests-per-second", "rate_limit.requests_per_minute": "requests-per-minute",
	"disable_after_failures": "disable-after", "timeout_seconds": "timeout", "rate_per_second": "rate",
	"grace_seconds": "grace", "allowed_ip_ranges": "allow-from",
}

// namingFlags replaces the locations of a refused request, such as query.received_after, by the
// flags of the command that set them, such as --since, or by its argument, and the parameter
// ?cascade=true by its flag. Other locations, such as members of a file, stay.
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
		} else if arg := argumentOf(cmd.Flags().Args(), f.Location); arg != "" {
			problem.Errors[i].Location = arg
		}
	}
	return err
}

// argumentOf returns the argument that is the id at a location, such as path.id or
// body.event_ids[1], in quotes, or "".
func argumentOf(args []string, location string) string {
	n := 0
	if _, index, isList := strings.Cut(location, "_ids["); isList {
		var err error
		if n, err = strconv.Atoi(strings.TrimSuffix(index, "]")); err != nil {
			return ""
		}
	} else if location != "path.id" {
		return ""
	}
	if n < 0 || n >= len(args) {
		return ""
	}
	return strconv.Quote(args[n])
}

// shortNames lets --trace and --correlation stand for --trace-id and --correlation-id.
func shortNames(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "trace" || name == "correlation" {
		name += "-id"
	}
	return pflag.NormalizedName(name)
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
