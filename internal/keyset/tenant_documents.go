package keyset

import (
	"slices"

	"github.com/eventhook/eventhook"
)

// tenantDocuments limits the cached documents per tenant: it records which
// tenant's request fetched each document, so that a tenant with many documents
// evicts its own documents and not another tenant's.
type tenantDocuments struct {
	maxPerTenant int
	tenant       map[string]eventhook.TenantID   // by URL
	urls         map[eventhook.TenantID][]string // the oldest first
}

func newTenantDocuments(cacheSize int) tenantDocuments {
	const maxShare = 8 // a tenant can use an eighth of the cache
	return tenantDocuments{max(cacheSize/maxShare, 1), map[string]eventhook.TenantID{}, map[eventhook.TenantID][]string{}}
}

// add records a document and returns the tenant's document that must be evicted
// for it, "" if no document must be evicted.
func (t *tenantDocuments) add(url string, tenant eventhook.TenantID) (oldest string) {
	if _, known := t.tenant[url]; known || tenant == (eventhook.TenantID{}) {
		return ""
	}
	if list := t.urls[tenant]; len(list) >= t.maxPerTenant {
		oldest = list[0]
		t.remove(oldest)
	}
	t.tenant[url] = tenant
	t.urls[tenant] = append(t.urls[tenant], url)
	return oldest
}

// remove removes a document. It does nothing for an unknown URL.
func (t *tenantDocuments) remove(url string) {
	tenant, known := t.tenant[url]
	if !known {
		return
	}
	delete(t.tenant, url)
	left := slices.DeleteFunc(t.urls[tenant], func(other string) bool { return other == url })
	if len(left) == 0 {
		delete(t.urls, tenant)
		return
	}
	t.urls[tenant] = left
}
