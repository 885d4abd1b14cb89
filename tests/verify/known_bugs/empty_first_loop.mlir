// The second of two loops that share a ring releases what the first one left borrowed, also where the first one
// had no iteration.
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
    %ring = "aref.create"() <{name = "ring"}> : () -> !aref.ring<2 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>
    %first = "aref.first"(%ring) : (!aref.ring<2 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>) -> !aref.index<2>
    "warp.group"() <{partition = "producer", role = "producer", num_warps = 1 : i32}> ({
      %written1 = "scf.for"(%zero, %n, %one, %first) ({
      ^bb0(%k: i32, %count1: !aref.index<2>):
        "aref.put"(%ring, %count1) ({
          %tile1 = "tt.descriptor_load"(%a_desc, %zero, %zero) <{cache = 1 : i32, evict = 1 : i32}> : (!tt.tensordesc<tensor<64x64xf16, #shared>>, i32, i32) -> tensor<64x64xf16, #blocked>
          "aref.filled"(%tile1) : (tensor<64x64xf16, #blocked>) -> ()
        }) : (!aref.ring<2 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>, !aref.index<2>) -> ()
        %after1 = "aref.advance"(%count1) : (!aref.index<2>) -> !aref.index<2>
        "scf.yield"(%after1) : (!aref.index<2>) -> ()
      }) : (i32, i32, i32, !aref.index<2>) -> !aref.index<2>
      %written2 = "scf.for"(%zero, %m, %one, %written1) ({
      ^bb0(%k2: i32, %count2: !aref.index<2>):
        "aref.put"(%ring, %count2) ({
          %tile2 = "tt.descriptor_load"(%a_desc, %zero, %zero) <{cache = 1 : i32, evict = 1 : i32}> : (!tt.tensordesc<tensor<64x64xf16, #shared>>, i32, i32) -> tensor<64x64xf16, #blocked>
          "aref.filled"(%tile2) : (tensor<64x64xf16, #blocked>) -> ()
        }) : (!aref.ring<2 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>, !aref.index<2>) -> ()
        %after2 = "aref.advance"(%count2) : (!aref.index<2>) -> !aref.index<2>
        "scf.yield"(%after2) : (!aref.index<2>) -> ()
      }) : (i32, i32, i32, !aref.index<2>) -> !aref.index<2>
      "warp.end"() : () -> ()
    }) : () -> ()
    "warp.group"() <{partition = "consumer", role = "consumer", num_warps = 4 : i32}> ({
      %zeros = "arith.constant"() <{value = dense<0.000000e+00> : tensor<64x64xf32, #mma>}> : () -> tensor<64x64xf32, #mma>
      %no = "arith.constant"() <{value = false}> : () -> i1
      %sum1:4 = "scf.for"(%zero, %n, %one, %zeros, %first, %first, %no) ({
      ^bb0(%k: i32, %acc1: tensor<64x64xf32, #mma>, %count1: !aref.index<2>, %old1: !aref.index<2>, %any1: i1):
        %yes1 = "arith.constant"() <{value = true}> : () -> i1
        %view1 = "aref.get"(%ring, %count1) : (!aref.ring<2 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>, !aref.index<2>) -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
        %after1 = "aref.advance"(%count1) : (!aref.index<2>) -> !aref.index<2>
        %next1 = "ttng.warp_group_dot"(%view1, %view1, %acc1) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>, !ttg.memdesc<64x64xf16, #shared, #smem, mutable>, tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #mma>
        %kept1 = "ttng.warp_group_dot_wait"(%next1) <{pendings = 1 : i32}> : (tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #mma>
        "aref.consumed"(%ring, %old1, %any1) : (!aref.ring<2 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>, !aref.index<2>, i1) -> ()
        "scf.yield"(%kept1, %after1, %count1, %yes1) : (tensor<64x64xf32, #mma>, !aref.index<2>, !aref.index<2>, i1) -> ()
      }) : (i32, i32, i32, tensor<64x64xf32, #mma>, !aref.index<2>, !aref.index<2>, i1) -> (tensor<64x64xf32, #mma>, !aref.index<2>, !aref.index<2>, i1)
      %always = "arith.constant"() <{value = true}> : () -> i1
      %sum2:4 = "scf.for"(%zero, %m, %one, %sum1#0, %sum1#1, %sum1#2, %always) ({  // wrong
      %sum2:4 = "scf.for"(%zero, %m, %one, %sum1#0, %sum1#1, %sum1#2, %sum1#3) ({  // mended
      ^bb0(%k2: i32, %acc2: tensor<64x64xf32, #mma>, %count2: !aref.index<2>, %old2: !aref.index<2>, %any2: i1):
        %yes2 = "arith.constant"() <{value = true}> : () -> i1
        %view2 = "aref.get"(%ring, %count2) : (!aref.ring<2 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>, !aref.index<2>) -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
        %after2 = "aref.advance"(%count2) : (!aref.index<2>) -> !aref.index<2>
        %next2 = "ttng.warp_group_dot"(%view2, %view2, %acc2) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>, !ttg.memdesc<64x64xf16, #shared, #smem, mutable>, tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #mma>
        %kept2 = "ttng.warp_group_dot_wait"(%next2) <{pendings = 1 : i32}> : (tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #mma>
        "aref.consumed"(%ring, %old2, %any2) : (!aref.ring<2 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>, !aref.index<2>, i1) -> ()
        "scf.yield"(%kept2, %after2, %count2, %yes2) : (tensor<64x64xf32, #mma>, !aref.index<2>, !aref.index<2>, i1) -> ()
      }) : (i32, i32, i32, tensor<64x64xf32, #mma>, !aref.index<2>, !aref.index<2>, i1) -> (tensor<64x64xf32, #mma>, !aref.index<2>, !aref.index<2>, i1)
      %all = "ttng.warp_group_dot_wait"(%sum2#0) <{pendings = 0 : i32}> : (tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #mma>
      "aref.consumed"(%ring, %sum2#2, %sum2#3) : (!aref.ring<2 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>, !aref.index<2>, i1) -> ()
      "warp.end"() : () -> ()
    }) : () -> ()
    "tt.return"() : () -> ()
  }) {noinline = false} : () -> ()
}) {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} : () -> ()
