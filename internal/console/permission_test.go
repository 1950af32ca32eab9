package console_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/console"
)

func TestReadersSeeNoActAtAnyAddress(t *testing.T) {
	readers := map[string]client.Identity{
		"read key":   keyOf("acme", "read"),
		"person":     personOf(client.TenantScopes{Slug: "acme", Scopes: []string{"read"}}),
		"admin_read": {Type: "admin_read", Name: "admin read key"},
	}
	for name, who := range readers {
		t.Run(name, func(t *testing.T) {
			f, api := newDocumented(t, who)
			eachPattern(t, isEach, func(t *testing.T, pattern, needs string) {
				f.T = t
				page := f.open(pattern)
				if acts := page.acts(pattern); len(acts) > 0 {
					t.Errorf("acts of a reader, got %v, want none", acts)
				}
				if forms := page.forms(); len(forms) > 0 {
					t.Errorf("links of a reader to forms, got %v, want none", forms)
				}
				if changes := api.changes(); len(changes) > 0 {
					t.Errorf("calls, got %v, want none that change something", changes)
				}
				switch {
				case needs == "admin":
					page.is(http.StatusForbidden).shows("No permission", "You lack the permissions of the admin key.")
				case needs != "":
					page.is(http.StatusForbidden).shows("No permission", "You lack the scope "+needs+" for the tenant acme.",
						"Sign in with a key that has this permission")
				case who.Type == "admin_read" && page.status != http.StatusSeeOther:
					page.is(http.StatusOK)
				}
			})
		})
	}
}

func TestKeysOfOtherTenantsSeeNoPageOfATenant(t *testing.T) {
	for name, who := range map[string]client.Identity{
		"key": keyOf("globex", "read", "manage", "publish", "work", "deliver"),
		"person": personOf(client.TenantScopes{Slug: "globex", Scopes: []string{"read", "manage", "work"}},
			client.TenantScopes{Slug: "acme"}),
	} {
		t.Run(name, func(t *testing.T) {
			f, api := newDocumented(t, who)
			eachPattern(t, isOfTenant, func(t *testing.T, pattern, _ string) {
				f.T = t
				page := f.open(pattern)
				if acts, changes := page.acts(pattern), api.changes(); len(acts)+len(changes) > 0 {
					t.Errorf("got the acts %v and the calls %v, want none", acts, changes)
				}
				page.is(http.StatusNotFound).shows("Not found", "No such tenant.")
			})
			f.T = t
			f.get("/console/new-tenant").is(http.StatusForbidden)
		})
	}
}

func TestPagesOfATenantNeedTheScopeToRead(t *testing.T) {
	all := console.Scopes()
	isRead := func(pattern, needs string) bool { return needs == "" && strings.Contains(pattern, "/t/{tenant}") }
	eachPattern(t, isRead, func(t *testing.T, pattern, _ string) {
		scopes := all[pattern]
		for _, scope := range scopes {
			f, _ := newDocumented(t, keyOf("acme", scope))
			if page := f.open(pattern); page.status != http.StatusSeeOther {
				page.is(http.StatusOK)
			}
		}
		others := slices.DeleteFunc([]string{"read", "manage", "publish", "work", "deliver"},
			func(other string) bool { return slices.Contains(scopes, other) })
		f, api := newDocumented(t, keyOf("acme", others...))
		f.open(pattern).is(http.StatusForbidden).
			shows("No permission", "You lack the scope "+strings.Join(scopes, " or ")+" for the tenant acme.")
		if len(api.calls) > 0 {
			t.Errorf("calls, got %v, want none", api.calls)
		}
	})
}

func TestFormsActWithThePermissionOfTheirPage(t *testing.T) {
	eachPattern(t, isForm, func(t *testing.T, pattern, needs string) {
		f, _ := newDocumented(t, holderOf(needs))
		_, target := addressOf(pattern)
		acts := f.open(pattern).is(http.StatusOK).acts(target)
		if len(acts) == 0 {
			t.Error("the page has no form")
		}
		for _, act := range acts {
			if got := needOf(http.MethodPost, act); got != needs {
				t.Errorf("the page needs %s, and its act %s needs %q", needs, act, got)
			}
		}
	})
}

func TestActsNeedWhatTheAPIDemands(t *testing.T) {
	eachPattern(t, isAct, func(t *testing.T, pattern, needs string) {
		if needs == "" {
			t.Fatal("the act needs nothing")
		}
		f, api := newDocumented(t, holderOf(needs))
		_, target := addressOf(pattern)
		page := f.post(target, maps.Clone(sent[pattern]))
		changes := api.changes()
		if len(changes) == 0 || page.status == http.StatusForbidden {
			t.Errorf("the act calls no operation that changes something; status %d: %s", page.status, page.main())
		}
		for _, o := range changes {
			if o.Scope != needs {
				t.Errorf("the act needs %s, and the API demands %s for %s %s", needs, o.Scope, o.Method, o.Path)
			}
		}
	})
}

func TestActsWithoutTheTokenOfTheSessionAreRefused(t *testing.T) {
	f, api := newDocumented(t, adminOf)
	other, _ := newDocumented(t, adminOf)
	eachPattern(t, isAct, func(t *testing.T, pattern, _ string) {
		f.T = t
		_, target := addressOf(pattern)
		tokens := map[string]string{"no token": "", "a wrong token": "x", "the token of another session": other.csrf}
		for name, token := range tokens {
			form := maps.Clone(sent[pattern])
			if form == nil {
				form = url.Values{}
			}
			form.Set("csrf", token)
			page := f.post(target, form).is(http.StatusForbidden).shows("The form has expired")
			if changes := api.changes(); len(changes) > 0 || page.header.Get("Location") != "" {
				t.Errorf("%s: got the calls %v, want none", name, changes)
			}
		}
	})
}

func TestAdminsFindNoFormOfAnUnknownTenant(t *testing.T) {
	for _, kind := range []string{"admin", "admin_read"} {
		t.Run(kind, func(t *testing.T) {
			f, _ := newDocumented(t, client.Identity{Type: client.IdentityType(kind), Name: "admin key"})
			api := http.NewServeMux()
			api.Handle("/", f.config.API)
			api.HandleFunc("GET /api/admin/tenants/{tenant}", func(w http.ResponseWriter, _ *http.Request) {
				writeProblem(w, &client.Problem{Title: "Not Found", Status: http.StatusNotFound, Detail: "no such tenant"})
			})
			f.config.API = api
			f.console = console.New(f.config)
			isFor := func(pattern, needs string) bool { return isForm(pattern, needs) && isOfTenant(pattern, needs) }
			eachPattern(t, isFor, func(t *testing.T, pattern, _ string) {
				f.T = t
				f.open(pattern).is(http.StatusNotFound).shows("Not found", "No such tenant.")
			})
		})
	}
}
