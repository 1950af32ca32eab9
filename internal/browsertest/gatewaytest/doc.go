// Package gatewaytest starts gateways for the browser tests. It is for tests only.
//
// Shared starts one gateway, which all tests of a test binary share; each test creates tenants of
// its own. Start starts a gateway for one test, which may kill and restart it. A gateway is the
// program that `go build` makes of this tree, in a process of its own, on a database of package
// pgtest. A package whose tests call these functions needs
//
//	func TestMain(m *testing.M) { gatewaytest.Main(m) }
//
// which also ends the browser of package browsertest.
package gatewaytest
