; How floats are rounded and whether denormals are zeros belongs to a thread: the caller's is the round's.
define internal i64 @jtorch_mode() {
  %slot = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %slot)
  %word = load i32, ptr %slot
  %mode = zext i32 %word to i64
  ret i64 %mode
}
define internal void @jtorch_set_mode(i64 %mode) {
  %slot = alloca i32
  %word = trunc i64 %mode to i32
  store i32 %word, ptr %slot
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  ret void
}
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
