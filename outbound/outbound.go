// Package outbound delivers signed events to a tenant's subscribers: matching,
// signing, the dispatcher, and what agents claim. It holds no SQL and knows no
// router; a delivery is made at least once, and no subscriber's endpoint
// delays another's.
package outbound
