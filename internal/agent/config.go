package agent

import (
	"errors"
	"fmt"
	"time"
)

// Config is the configuration of an Agent. It contains no secrets.
type Config struct {
	Server, Tenant string // the gateway's URL, and the slug of the tenant
	Allow          AllowList
	Concurrency    int           // requests at once
	Lease          time.Duration // of each delivery, whole seconds
	StopTimeout    time.Duration // time for running requests after the end of Run's context
	CAFile         string        // authorities trusted in addition to the ones of the system; may be ""
	CertFile       string        // of the certificate for destinations that ask for one; may be ""
	KeyFile        string        // of its key
	Listen         string        // address of the listener for metrics and health; "": none
	Version        string        // of the program
}

// Limits of a Config.
const (
	MaxConcurrency = 1000
	MinLease       = 5 * time.Second
	MaxLease       = 5 * time.Minute // of the API
)

// Validate returns all faults, each with the name of its flag.
func (c Config) Validate() error {
	var faults []error
	add := func(isFault bool, format string, args ...any) {
		if isFault {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	add(c.Tenant == "", "--tenant is required: the slug of the tenant, also in EVENTHOOK_TENANT")
	add(len(c.Allow.entries) == 0, "--allow is required: the agent sends only to the destinations that it names, such as --allow http://10.0.0.0/8 or --allow https://ci.example.com/hooks")
	add(c.Concurrency < 1 || c.Concurrency > MaxConcurrency, "--concurrency %d, want 1 to %d", c.Concurrency, MaxConcurrency)
	add(c.Lease < MinLease || c.Lease > MaxLease || c.Lease%time.Second != 0, "--lease %s, want whole seconds from %s to %s", c.Lease, MinLease, MaxLease)
	add(c.StopTimeout < 0, "--stop-timeout %s, want 0 or more", c.StopTimeout)
	add((c.CertFile == "") != (c.KeyFile == ""), "--client-cert and --client-key are required together")
	return errors.Join(faults...)
}

// claimWait returns how long a claim waits for deliveries: a quarter of the lease, which is counted
// from before the claim, and at most 30 s, which is shorter than the usual timeouts of proxies.
func (c Config) claimWait() time.Duration {
	const share, longest = 4, 30 * time.Second
	return min(longest, (c.Lease / share).Truncate(time.Second))
}
