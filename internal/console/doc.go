// Package console serves the web console: HTML pages that show what internal/view derives from the objects of a cluster.
// Broker and agent run the same console; the kinds of objects in their cluster decide which pages there are.
//
// A request passes these steps:
//
//	token ──► TokenReview ──► SubjectAccessReviews ──► the objects the user may list ──► view ──► template
//	(login.go)              (access.go)               (source.go, visitor.go)        (pages.go)   (templates/)
//
// The console reads objects from the informers of its process, so a page costs the API server nothing but the reviews, and
// these are cached. It shows a user no object that the user may not list in the API server, and says which kinds are
// hidden. Events and manifests are read, and changes are made (actions.go), with the user's own token.
//
// Pages work without JavaScript. With JavaScript, a stream of server-sent events replaces the main part of a page whenever
// objects changed, at most once a second (live.go).
package console
