// Package outbound will deliver signed events to a tenant's subscribers:
// matching, signing, the dispatcher, and what agents claim. It holds nothing
// yet.
package outbound
