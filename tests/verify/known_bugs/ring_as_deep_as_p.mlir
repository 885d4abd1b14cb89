// The reader keeps one wgmma in flight (P = 1), so it holds one slot while it waits for the next: a ring of D = 1
// never has another.
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#barriers = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
"builtin.module"() ({
  "tt.func"() <{function_type = (!tt.tensordesc<tensor<64x64xf16, #shared>>, i32, i32) -> (), sym_name = "kernel", sym_visibility = "public"}> ({
  ^bb0(%a_desc: !tt.tensordesc<tensor<64x64xf16, #shared>>, %n: i32, %m: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %ring = "aref.create"() <{name = "ring"}> : () -> !aref.ring<1 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>
    %first = "aref.first"(%ring) : (!aref.ring<1 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>) -> !aref.index<1>
    "warp.group"() <{partition = "producer", role = "producer", num_warps = 1 : i32}> ({
      %written = "scf.for"(%zero, %n, %one, %first) ({
      ^bb0(%k: i32, %count: !aref.index<1>):
        "aref.put"(%ring, %count) ({
          %tile = "tt.descriptor_load"(%a_desc, %zero, %zero) <{cache = 1 : i32, evict = 1 : i32}> : (!tt.tensordesc<tensor<64x64xf16, #shared>>, i32, i32) -> tensor<64x64xf16, #blocked>
          "aref.filled"(%tile) : (tensor<64x64xf16, #blocked>) -> ()
        }) : (!aref.ring<1 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>, !aref.index<1>) -> ()
        %after = "aref.advance"(%count) : (!aref.index<1>) -> !aref.index<1>
        "scf.yield"(%after) : (!aref.index<1>) -> ()
      }) : (i32, i32, i32, !aref.index<1>) -> !aref.index<1>
      "warp.end"() : () -> ()
    }) : () -> ()
    "warp.group"() <{partition = "consumer", role = "consumer", num_warps = 4 : i32}> ({
      %zeros = "arith.constant"() <{value = dense<0.000000e+00> : tensor<64x64xf32, #mma>}> : () -> tensor<64x64xf32, #mma>
      %no = "arith.constant"() <{value = false}> : () -> i1
      %sum:4 = "scf.for"(%zero, %n, %one, %zeros, %first, %first, %no) ({
      ^bb0(%k: i32, %acc: tensor<64x64xf32, #mma>, %count: !aref.index<1>, %old: !aref.index<1>, %any: i1):
        %yes = "arith.constant"() <{value = true}> : () -> i1
        %view = "aref.get"(%ring, %count) : (!aref.ring<1 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>, !aref.index<1>) -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
        %after = "aref.advance"(%count) : (!aref.index<1>) -> !aref.index<1>
        %next = "ttng.warp_group_dot"(%view, %view, %acc) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>, !ttg.memdesc<64x64xf16, #shared, #smem, mutable>, tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #mma>
        %kept = "ttng.warp_group_dot_wait"(%next) <{pendings = 1 : i32}> : (tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #mma>  // wrong
        %kept = "ttng.warp_group_dot_wait"(%next) <{pendings = 0 : i32}> : (tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #mma>  // mended
        "aref.consumed"(%ring, %old, %any) : (!aref.ring<1 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>, !aref.index<1>, i1) -> ()  // wrong
        "aref.consumed"(%ring, %count) : (!aref.ring<1 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>, !aref.index<1>) -> ()  // mended
        "scf.yield"(%kept, %after, %count, %yes) : (tensor<64x64xf32, #mma>, !aref.index<1>, !aref.index<1>, i1) -> ()
      }) : (i32, i32, i32, tensor<64x64xf32, #mma>, !aref.index<1>, !aref.index<1>, i1) -> (tensor<64x64xf32, #mma>, !aref.index<1>, !aref.index<1>, i1)
      %all = "ttng.warp_group_dot_wait"(%sum#0) <{pendings = 0 : i32}> : (tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #mma>
      "aref.consumed"(%ring, %sum#2, %sum#3) : (!aref.ring<1 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>, !aref.index<1>, i1) -> ()  // wrong
      "warp.end"() : () -> ()
    }) : () -> ()
    "tt.return"() : () -> ()
  }) {noinline = false} : () -> ()
}) {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} : () -> ()
