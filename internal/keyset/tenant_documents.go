package keyset

import (
	"slices"

	"github.com/eventhook/eventhook"
)

// kept notes which tenant's request brought each document, so that a tenant
// with many documents pushes out its own and not those of the others.
type kept struct {
	most   int
	tenant map[string]eventhook.TenantID
	urls   map[eventhook.TenantID][]string // the oldest first
}

func newKept(size int) kept {
	const share = 8
	return kept{max(size/share, 1), map[string]eventhook.TenantID{}, map[eventhook.TenantID][]string{}}
}

// add notes a document, and returns the one that must go for it, "" if none must.
func (k *kept) add(url string, tenant eventhook.TenantID) (oldest string) {
	if _, known := k.tenant[url]; known || tenant == (eventhook.TenantID{}) {
		return ""
	}
	if list := k.urls[tenant]; len(list) >= k.most {
		oldest = list[0]
		k.drop(oldest)
	}
	k.tenant[url] = tenant
	k.urls[tenant] = append(k.urls[tenant], url)
	return oldest
}

// drop forgets a document. It may be forgotten already.
func (k *kept) drop(url string) {
	tenant, known := k.tenant[url]
	if !known {
		return
	}
	delete(k.tenant, url)
	left := slices.DeleteFunc(k.urls[tenant], func(other string) bool { return other == url })
	if len(left) == 0 {
		delete(k.urls, tenant)
		return
	}
	k.urls[tenant] = left
}
