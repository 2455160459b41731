// Package enforcement holds consumers to what was granted: it evicts the newest pods of a
// placement whose pods exceed the grant, and has Liqo create pods that were refused as soon
// as they fit.
package enforcement
